import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Asks Kafka's StandardAuthorizer. Each line of stdin is a command with fields after tabs: `new`
 * begins with an empty authorizer, `acl` adds an ACL, `ask` and `any` are questions. The output has
 * 1 for each answer that is allowed, and 0 for each that is denied.
 */
public final class Decisions {
    private record Client(KafkaPrincipal principal, InetAddress clientAddress)
            implements AuthorizableRequestContext {
        public String listenerName() { return "PLAINTEXT"; }
        public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        public int requestType() { return 0; }
        public int requestVersion() { return 0; }
        public String clientId() { return "decisions"; }
        public int correlationId() { return 0; }
    }

    public static void main(String[] arguments) throws Exception {
        StandardAuthorizer authorizer = null;
        StringBuilder answers = new StringBuilder();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] fields = line.split("\t", -1);
            switch (fields[0]) {
                case "new" -> authorizer = authorizer(fields[1]);
                case "acl" -> authorizer.addAcl(Uuid.randomUuid(), acl(fields));
                default -> answers.append(isAllowed(authorizer, fields) ? "1" : "0");
            }
        }
        System.out.print(answers);
    }

    private static StandardAuthorizer authorizer(String opensWithoutAcl) {
        StandardAuthorizer made = new StandardAuthorizer();
        made.configure(Map.of(
            "node.id", "1",
            "super.users", "User:root",
            "allow.everyone.if.no.acl.found", opensWithoutAcl));
        made.withPluginMetrics(new PluginMetricsImpl(new Metrics(), new LinkedHashMap<>()));
        made.completeInitialLoad();
        return made;
    }

    private static StandardAcl acl(String[] fields) {
        return new StandardAcl(
            ResourceType.fromCode(Byte.parseByte(fields[1])),
            fields[2],
            PatternType.fromCode(Byte.parseByte(fields[3])),
            fields[4],
            fields[5],
            AclOperation.fromCode(Byte.parseByte(fields[6])),
            AclPermissionType.fromCode(Byte.parseByte(fields[7])));
    }

    private static boolean isAllowed(StandardAuthorizer authorizer, String[] fields)
            throws Exception {
        String[] who = fields[1].split(":", 2);
        Client client = new Client(
            new KafkaPrincipal(who[0], who[1]), InetAddress.getByName(fields[2]));
        AclOperation operation = AclOperation.fromCode(Byte.parseByte(fields[3]));
        ResourceType type = ResourceType.fromCode(Byte.parseByte(fields[4]));
        if (fields[0].equals("any")) {
            return authorizer.authorizeByResourceType(client, operation, type)
                == AuthorizationResult.ALLOWED;
        }
        ResourcePattern resource = new ResourcePattern(type, fields[5], PatternType.LITERAL);
        Action action = new Action(operation, resource, 1, false, false);
        return authorizer.authorize(client, List.of(action)).get(0) == AuthorizationResult.ALLOWED;
    }
}
