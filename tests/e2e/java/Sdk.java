// One client of the Maven package centrifuge-java, steered by lines of JSON on standard input. It
// speaks Protobuf alone; data are bytes, which here are always JSON. What happens to it is told in
// lines of JSON on standard output. js/sdk.mjs speaks the same language, and more of it.

import io.github.centrifugal.centrifuge.*;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.json.JSONArray;
import org.json.JSONObject;
import org.json.JSONTokener;

final class Sdk {
    static Client client;

    static synchronized void tell(String event, Object... fields) {
        JSONObject line = new JSONObject().put("event", event);
        for (int at = 0; at < fields.length; at += 2) {
            line.put((String) fields[at], fields[at + 1]);
        }
        System.out.println(line);
        System.out.flush();
    }

    static Object read(byte[] data) {
        return new JSONTokener(new String(data, StandardCharsets.UTF_8)).nextValue();
    }

    static byte[] written(JSONObject order) {
        String text = JSONObject.valueToString(order.get("data"));
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static Object code(Throwable error) {
        return error instanceof ReplyError ? ((ReplyError) error).getCode() : null;
    }

    static final class Listener extends EventListener {
        @Override public void onConnecting(Client c, ConnectingEvent e) {
            tell("connecting", "code", e.getCode(), "reason", e.getReason());
        }

        @Override public void onConnected(Client c, ConnectedEvent e) {
            tell("connected", "client", e.getClient());
        }

        @Override public void onDisconnected(Client c, DisconnectedEvent e) {
            tell("disconnected", "code", e.getCode(), "reason", e.getReason());
        }

        @Override public void onError(Client c, ErrorEvent e) {
            tell("error", "code", code(e.getError()), "message", String.valueOf(e.getError()));
        }
    }

    static final class Follower extends SubscriptionEventListener {
        @Override public void onSubscribed(Subscription s, SubscribedEvent e) {
            tell("subscribed", "channel", s.getChannel(), "was_recovering", e.wasRecovering(),
                    "recovered", e.getRecovered(), "recoverable", e.getRecoverable());
        }

        @Override public void onUnsubscribed(Subscription s, UnsubscribedEvent e) {
            tell("unsubscribed", "channel", s.getChannel(), "code", e.getCode());
        }

        @Override public void onPublication(Subscription s, PublicationEvent e) {
            String user = e.getInfo() == null ? null : e.getInfo().getUser();
            tell("publication", "channel", s.getChannel(), "data", read(e.getData()),
                    "offset", e.getOffset(), "user", user);
        }

        @Override public void onJoin(Subscription s, JoinEvent e) {
            tell("join", "channel", s.getChannel(), "client", e.getInfo().getClient(),
                    "user", e.getInfo().getUser());
        }

        @Override public void onLeave(Subscription s, LeaveEvent e) {
            tell("leave", "channel", s.getChannel(), "client", e.getInfo().getClient(),
                    "user", e.getInfo().getUser());
        }

        @Override public void onError(Subscription s, SubscriptionErrorEvent e) {
            tell("subscription error", "channel", s.getChannel(), "message", e.toString());
        }
    }

    /** What becomes of an order: the fields that `shown` makes of the result, or the error. */
    interface Shown<T> {
        Object[] fields(T result);
    }

    static <T> ResultCallback<T> done(int id, Shown<T> shown) {
        return (error, result) -> {
            if (error != null) {
                tell("failed", "id", id, "code", code(error), "message", error.getMessage());
                return;
            }
            List<Object> fields = new ArrayList<>(List.of("id", id));
            fields.addAll(List.of(shown.fields(result)));
            tell("done", fields.toArray());
        };
    }

    static void connect(JSONObject order) {
        Options options = new Options();
        options.setToken(order.optString("token"));
        options.setMinReconnectDelay(20);
        options.setMaxReconnectDelay(200);
        options.setTimeout(20_000);
        client = new Client(order.getString("url"), options, new Listener());
        client.connect();
    }

    static void subscribe(String channel) throws DuplicateSubscriptionException {
        Subscription sub = client.getSubscription(channel);
        if (sub == null) {
            SubscriptionOptions options = new SubscriptionOptions();
            options.setMinResubscribeDelay(20);
            options.setMaxResubscribeDelay(200);
            sub = client.newSubscription(channel, options, new Follower());
        }
        sub.subscribe();
    }

    static Object[] page(HistoryResult page) {
        JSONArray data = new JSONArray();
        page.getPublications().forEach(one -> data.put(read(one.getData())));
        return new Object[] {"data", data, "offset", page.getOffset(), "epoch", page.getEpoch()};
    }

    static Object[] present(PresenceResult there) {
        List<String> users = there.getClients().values().stream()
                .map(ClientInfo::getUser).sorted().collect(Collectors.toList());
        TreeSet<String> clients = new TreeSet<>(there.getClients().keySet());
        return new Object[] {"clients", new JSONArray(clients), "users", new JSONArray(users)};
    }

    static void carryOut(JSONObject order) throws DuplicateSubscriptionException {
        int id = order.getInt("id");
        String channel = order.optString("channel");
        switch (order.getString("order")) {
            case "connect": connect(order); break;
            case "disconnect": client.disconnect(); break;
            case "subscribe": subscribe(channel); break;
            case "unsubscribe": client.getSubscription(channel).unsubscribe(); break;
            case "publish":
                client.publish(channel, written(order), done(id, result -> new Object[0]));
                break;
            case "history":
                HistoryOptions options = new HistoryOptions.Builder()
                        .withLimit(order.optInt("limit"))
                        .withReverse(order.optBoolean("reverse")).build();
                client.history(channel, options, done(id, Sdk::page));
                break;
            case "presence": client.presence(channel, done(id, Sdk::present)); break;
            case "presence_stats":
                client.presenceStats(channel, done(id, stats -> new Object[] {
                    "num_clients", stats.getNumClients(), "num_users", stats.getNumUsers()}));
                break;
            case "rpc":
                client.rpc(order.getString("method"), written(order),
                        done(id, result -> new Object[] {"data", read(result.getData())}));
                break;
            default: throw new IllegalArgumentException(order.toString());
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(
                new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            carryOut(new JSONObject(line));
        }
        System.exit(0);
    }
}
