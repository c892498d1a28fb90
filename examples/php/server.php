<?php
// A back end for Throng in plain PHP, in one file: it issues tokens, and publishes on a change.
// `php server.php` starts PHP's own server with it, which is for your own machine alone.
declare(strict_types=1);

function setting(string $name, string $otherwise): string
{
    $value = getenv($name);
    return $value === false ? $otherwise : $value;
}

if (PHP_SAPI === 'cli') {
    $address = '127.0.0.1:' . setting('PORT', '3000');
    if (str_ends_with($address, ':0')) {
        $free = stream_socket_server("tcp://$address");
        $address = stream_socket_get_name($free, false);
        fclose($free);
    }
    echo "http://$address/\n";
    pcntl_exec(PHP_BINARY, ['-S', $address, __FILE__]);
}

define('SECRET', setting('THRONG_SECRET', 'an-example-secret-that-everyone-knows'));
define('KEY', setting('THRONG_KEY', 'an-example-key-that-everyone-knows'));
define('API', setting('THRONG_API', 'http://127.0.0.1:8001'));
define('CLIENTS', setting('THRONG_CLIENTS', '127.0.0.1:8000'));
define('EXAMPLES', setting('EXAMPLES', dirname(__DIR__)));
define('CHAT', setting('CHAT', EXAMPLES . '/chat/dist'));
const STAFF = ['ann', 'carol'];

/** A JSON Web Token with HMAC (RFC 7519). */
function token(array $claims): string
{
    $part = fn (string $bytes) => rtrim(strtr(base64_encode($bytes), '+/', '-_'), '=');
    $text = $part('{"alg":"HS256","typ":"JWT"}') . '.' . $part(json_encode($claims));
    return $text . '.' . $part(hash_hmac('sha256', $text, SECRET, true));
}

function publish(string $channel, mixed $data): void
{
    // The key makes a repeated request harmless.
    $body = ['channel' => $channel, 'data' => $data, 'idempotency_key' => bin2hex(random_bytes(16))];
    $context = stream_context_create(['http' => [
        'method' => 'POST',
        'header' => ['Content-Type: application/json', 'X-API-Key: ' . KEY],
        'content' => json_encode($body),
        'timeout' => 5,
    ]]);
    $answer = file_get_contents(API . '/api/publish', false, $context);
    $error = $answer === false ? 'no answer' : (json_decode($answer, true)['error'] ?? null);
    if ($error) {
        throw new RuntimeException('publish: ' . json_encode($error));
    }
}

/** Each request is a program of its own, so the scores are in a file. */
function scores(?callable $change = null): array
{
    $file = fopen(sys_get_temp_dir() . '/throng-example-scores-' . getmypid() . '.json', 'c+');
    flock($file, LOCK_EX);
    $scores = json_decode(stream_get_contents($file), true) ?? ['reds' => 0, 'blues' => 0];
    if ($change) {
        $scores = $change($scores);
        rewind($file);
        ftruncate($file, 0);
        fwrite($file, json_encode($scores));
    }
    fclose($file);
    return $scores;
}

function answer(int $status, string $type = 'text/plain', string $body = ''): bool
{
    http_response_code($status);
    header("Content-Type: $type");
    echo $body;
    return true;
}

function file_of(string $folder, string $path): bool
{
    $file = realpath($folder . (str_ends_with($path, '/') ? "$path/index.html" : $path));
    if ($file === false || !str_starts_with($file, realpath($folder) . '/')) {
        return answer(404);
    }
    $types = ['html' => 'text/html', 'js' => 'text/javascript', 'css' => 'text/css'];
    $type = $types[pathinfo($file, PATHINFO_EXTENSION)] ?? 'application/octet-stream';
    return answer(200, $type, file_get_contents($file));
}

$path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
$body = json_decode(file_get_contents('php://input'), true) ?? [];

// A real back end reads the user from its own session: $_SESSION.
if ($path === '/token') {
    ['user' => $user, 'channel' => $channel] = $_GET + ['user' => '', 'channel' => null];
    if (!is_string($user) || $user === '') {
        return answer(401);
    }
    if ($channel !== null && ($channel !== '$team:staff' || !in_array($user, STAFF, true))) {
        return answer(403);
    }
    $claims = ['sub' => $user, 'exp' => time() + 600];
    return answer(200, 'text/plain', token($channel === null ? $claims : $claims + ['channel' => $channel]));
}
if ($path === '/messages' && $_SERVER['REQUEST_METHOD'] === 'POST') {
    ['channel' => $channel, 'user' => $user, 'text' => $text] = $body + ['channel' => '', 'user' => '', 'text' => ''];
    if ($channel !== 'room:general' && !($channel === '$team:staff' && in_array($user, STAFF, true))) {
        return answer(403);
    }
    if (!is_string($text) || trim($text) === '' || strlen($text) > 500) {
        return answer(400);
    }
    publish($channel, ['id' => bin2hex(random_bytes(8)), 'user' => $user, 'text' => $text]);
    return answer(204);
}
if ($path === '/scores') {
    if ($_SERVER['REQUEST_METHOD'] !== 'POST') {
        return answer(200, 'application/json', json_encode(scores()));
    }
    ['team' => $team, 'points' => $points] = $body + ['team' => '', 'points' => null];
    if (!in_array($team, ['reds', 'blues'], true) || !is_int($points)) {
        return answer(400);
    }
    $scores = scores(fn (array $scores) => [...$scores, $team => $scores[$team] + $points]);
    publish('board:scores', $scores);
    return answer(200, 'application/json', json_encode($scores));
}
if ($path === '/settings') {
    return answer(200, 'application/json', json_encode(['clients' => CLIENTS]));
}
foreach (['/chat/' => CHAT, '/board/' => EXAMPLES . '/board'] as $prefix => $folder) {
    if (str_starts_with($path, $prefix)) {
        return file_of($folder, substr($path, strlen($prefix) - 1));
    }
}
return answer(404);
