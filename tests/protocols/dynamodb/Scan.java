// The AWS SDK for Java 2: reads all pages of a table, then an item, then an error. Arguments: address, password.
import java.net.URI;
import java.util.Map;
import software.amazon.awssdk.auth.credentials.AwsSessionCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.dynamodb.DynamoDbClient;
import software.amazon.awssdk.services.dynamodb.model.AttributeValue;
import software.amazon.awssdk.services.dynamodb.model.DynamoDbException;

public class Scan {
    public static void main(String[] arguments) {
        var credentials = AwsSessionCredentials.create("anna", arguments[1], arguments[1]);
        try (var client = DynamoDbClient.builder()
                .endpointOverride(URI.create(arguments[0]))
                .region(Region.EU_CENTRAL_1)
                .credentialsProvider(StaticCredentialsProvider.create(credentials))
                .build()) {
            var items = client.scanPaginator(scan -> scan.tableName("people").limit(5)).items().stream().toList();
            System.out.println(items.size() + " " + items.get(0).get("email").s() + " " + items.get(0).get("salary").n());
            var key = Map.of("email", AttributeValue.fromS("person1@example.com"), "year", AttributeValue.fromN("1981"));
            System.out.println(client.getItem(get -> get.tableName("people").key(key)).item().get("phones").ss());
            try {
                client.deleteItem(delete -> delete.tableName("people").key(key));
            } catch (DynamoDbException error) {
                System.out.println(error.awsErrorDetails().errorCode() + " " + error.statusCode());
            }
        }
    }
}
