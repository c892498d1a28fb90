// A back end with the Maven package pusher-http-java: Backend HOST:PORT APP KEY SECRET
// Orders and events are lines of JSON, as with Sdk.java; python/backend.py, go/backend.go and
// js/pusher.mjs speak the same language. The package neither notes nor terminates users.

import com.pusher.rest.Pusher;
import com.pusher.rest.data.Event;
import com.pusher.rest.data.PresenceUser;
import com.pusher.rest.data.Result;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.json.JSONObject;

final class Backend {
    static Pusher pusher;

    static List<String> texts(JSONObject order, String key) {
        return order.getJSONArray(key).toList().stream()
                .map(String::valueOf).collect(Collectors.toList());
    }

    static Object plain(Object data) {
        return data instanceof JSONObject ? ((JSONObject) data).toMap() : data;
    }

    static JSONObject told(Result result) {
        JSONObject line = new JSONObject().put("status", result.getHttpStatus());
        boolean done = result.getStatus() == Result.Status.SUCCESS;
        String body = result.getMessage();
        return line.put("event", done ? "done" : "failed")
                .put("body", done ? new JSONObject(body) : body);
    }

    static JSONObject carryOut(JSONObject order) {
        switch (order.getString("order")) {
            case "trigger":
                return told(pusher.trigger(texts(order, "channels"), order.getString("name"),
                        plain(order.get("data")), order.optString("socket_id", null)));
            case "batch":
                List<Event> batch = new ArrayList<>();
                for (Object one : order.getJSONArray("batch")) {
                    JSONObject event = (JSONObject) one;
                    batch.add(new Event(event.getString("channel"), event.getString("name"),
                            plain(event.get("data")), event.optString("socket_id", null)));
                }
                return told(pusher.trigger(batch));
            case "get":
                JSONObject params = order.optJSONObject("params", new JSONObject());
                Map<String, String> asked = params.keySet().stream()
                        .collect(Collectors.toMap(key -> key, params::getString));
                return told(pusher.get(order.getString("path"), asked));
            case "authorize":
                String socket = order.getString("socket_id");
                String channel = order.getString("channel");
                JSONObject member = order.optJSONObject("member");
                String auth = member == null ? pusher.authenticate(socket, channel)
                        : pusher.authenticate(socket, channel, new PresenceUser(
                                member.getString("user_id"),
                                member.getJSONObject("user_info").toMap()));
                return new JSONObject().put("event", "done").put("answer", new JSONObject(auth));
            default: throw new IllegalArgumentException(order.toString());
        }
    }

    public static void main(String[] arguments) throws Exception {
        byte[] master = new byte[32];
        java.util.Arrays.fill(master, (byte) 'k');
        pusher = new Pusher(arguments[1], arguments[2], arguments[3],
                Base64.getEncoder().encodeToString(master));
        pusher.setHost(arguments[0]);
        pusher.setEncrypted(false);
        BufferedReader in = new BufferedReader(
                new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JSONObject order = new JSONObject(line);
            System.out.println(carryOut(order).put("id", order.getInt("id")));
            System.out.flush();
        }
        System.exit(0);
    }
}
