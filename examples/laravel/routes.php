<?php
// Routes of a Laravel back end for Throng: they issue tokens, and publish on a change.
//
// Put this into routes/web.php, with these lines in config/services.php:
//   'throng' => ['secret' => env('THRONG_SECRET'), 'key' => env('THRONG_KEY'),
//                'api' => env('THRONG_API', 'http://127.0.0.1:8001'),
//                'clients' => env('THRONG_CLIENTS', '127.0.0.1:8000')],
// and `composer require firebase/php-jwt`. Posts from pages carry Laravel's CSRF token, as any do.

use Firebase\JWT\JWT;
use Illuminate\Http\Request;
use Illuminate\Support\Facades\Cache;
use Illuminate\Support\Facades\Gate;
use Illuminate\Support\Facades\Http;
use Illuminate\Support\Facades\Route;
use Illuminate\Support\Str;

function publish(string $channel, mixed $data): void
{
    // The key makes a repeated request harmless, so a retry may be sent.
    $body = ['channel' => $channel, 'data' => $data, 'idempotency_key' => (string) Str::uuid()];
    $answer = Http::withHeaders(['X-API-Key' => config('services.throng.key')])
        ->timeout(5)
        ->retry(3, 200)
        ->post(config('services.throng.api') . '/api/publish', $body)
        ->throw();
    if ($error = $answer->json('error')) {
        throw new RuntimeException('publish: ' . json_encode($error));
    }
}

Route::middleware('auth')->group(function () {
    // Without a channel: who the client is. With one: that this user may subscribe to it.
    Route::get('/token', function (Request $request) {
        $claims = ['sub' => (string) $request->user()->id, 'exp' => time() + 600];
        if ($channel = $request->query('channel')) {
            abort_unless($channel === '$team:staff' && Gate::allows('be-staff'), 403);
            $claims['channel'] = $channel;
        }
        return response(JWT::encode($claims, config('services.throng.secret'), 'HS256'))
            ->header('Content-Type', 'text/plain');
    });

    Route::post('/messages', function (Request $request) {
        $message = $request->validate([
            'channel' => 'required|in:room:general,$team:staff',
            'text' => 'required|string|max:500',
        ]);
        abort_if($message['channel'] === '$team:staff' && Gate::denies('be-staff'), 403);
        // A real one stores the message here, in the same transaction as an outbox row:
        // docs/guides/feeds.md publishes from there.
        publish($message['channel'], [
            'id' => (string) Str::uuid(),
            'user' => $request->user()->name,
            'text' => $message['text'],
        ]);
        return response()->noContent();
    });

    Route::post('/scores', function (Request $request) {
        $change = $request->validate(['team' => 'required|in:reds,blues', 'points' => 'required|integer']);
        $scores = Cache::lock('scores', 5)->block(5, function () use ($change) {
            $scores = Cache::get('scores', ['reds' => 0, 'blues' => 0]);
            $scores[$change['team']] += $change['points'];
            Cache::forever('scores', $scores);
            return $scores;
        });
        publish('board:scores', $scores);
        return response()->json($scores);
    });
});

Route::get('/scores', fn () => response()->json(Cache::get('scores', ['reds' => 0, 'blues' => 0])));
Route::get('/settings', fn () => response()->json(['clients' => config('services.throng.clients')]));
