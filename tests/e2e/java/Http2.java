// The HTTP client of the JDK: Http2 URL AUTHORITIES
// js/http2.mjs speaks the same language, and more.

import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import org.json.JSONObject;

final class Http2 {
    static synchronized void tell(JSONObject line) {
        System.out.println(line);
        System.out.flush();
    }

    static JSONObject told(String event, HttpResponse<?> response) {
        return new JSONObject().put("event", event).put("status", response.statusCode())
                .put("version", response.version() == HttpClient.Version.HTTP_2 ? 2 : 1);
    }

    static SSLContext trusting(String file) throws Exception {
        KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
        trusted.load(null);
        try (InputStream pem = Files.newInputStream(Path.of(file))) {
            for (Certificate it : CertificateFactory.getInstance("X.509").generateCertificates(pem)) {
                trusted.setCertificateEntry("authority-" + trusted.size(), it);
            }
        }
        TrustManagerFactory managers =
                TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        managers.init(trusted);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, managers.getTrustManagers(), null);
        return context;
    }

    public static void main(String[] arguments) throws Exception {
        HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_2)
                .sslContext(trusting(arguments[1])).build();
        BufferedReader lines =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null;) {
            JSONObject order = new JSONObject(line);
            String target = order.getString("target");
            HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(arguments[0] + target));
            if (order.getString("order").equals("follow")) {
                client.sendAsync(request.build(), HttpResponse.BodyHandlers.ofLines())
                        .thenAcceptAsync(response -> {
                            tell(told("open", response));
                            response.body().forEach(text ->
                                    tell(new JSONObject().put("event", "line").put("text", text)));
                            tell(new JSONObject().put("event", "ended").put("target", target));
                        }, task -> new Thread(task).start());
                continue;
            }
            HttpRequest.BodyPublisher body = order.has("body")
                    ? HttpRequest.BodyPublishers.ofString(order.getString("body"))
                    : HttpRequest.BodyPublishers.noBody();
            HttpResponse<String> response = client.send(
                    request.method(order.getString("method"), body).build(),
                    HttpResponse.BodyHandlers.ofString());
            tell(told("done", response).put("id", order.get("id")).put("body", response.body()));
        }
        System.exit(0);
    }
}
