import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.ProxySelector;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/** What applications do with java.net.http and a proxy. Arguments: proxy port, origin URL. Prints one line for each answer. */
public class Client {
    static String origin;

    static HttpRequest.Builder to(String path) {
        return HttpRequest.newBuilder(URI.create(origin + path)).timeout(Duration.ofSeconds(10));
    }

    static void print(HttpResponse<String> answer) {
        System.out.println(answer.statusCode() + " " + answer.body() + " " + answer.headers().firstValue("evenkeel-attempts").orElse("-"));
    }

    public static void main(String[] arguments) throws Exception {
        origin = arguments[1];
        HttpClient client = HttpClient.newBuilder()
            .proxy(ProxySelector.of(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0]))))
            .build(); // HTTP/2 preferred, as built in: it asks for an upgrade to h2c, which must do no harm
        print(client.send(to("/503").build(), BodyHandlers.ofString()));
        print(client.send(to("/reset").build(), BodyHandlers.ofString()));
        print(client.send(to("/chunked").build(), BodyHandlers.ofString()));
        print(client.send(to("/x").POST(BodyPublishers.ofString("abc")).build(), BodyHandlers.ofString()));
        print(client.send(to("/x").PUT(BodyPublishers.ofByteArrays(List.of("ab".getBytes(), "cd".getBytes()))).build(), BodyHandlers.ofString()));
        print(client.send(to("/x").PUT(BodyPublishers.ofString("expected")).expectContinue(true).build(), BodyHandlers.ofString()));
        List<CompletableFuture<HttpResponse<String>>> all = new ArrayList<>();
        for (int i = 0; i < 20; i++)
            all.add(client.sendAsync(to("/" + i).build(), BodyHandlers.ofString()));
        int good = 0;
        for (CompletableFuture<HttpResponse<String>> one : all)
            good += one.get().statusCode() == 200 ? 1 : 0;
        System.out.println(good);
        try {
            print(client.send(to("/broken").build(), BodyHandlers.ofString()));
        } catch (IOException fault) {
            System.out.println("broken");
        }
        System.exit(0);
    }
}
