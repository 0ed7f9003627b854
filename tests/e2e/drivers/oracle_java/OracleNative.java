// Uses native encryption by JDBC: SERVICE USER PASSWORD LEVEL HOST:PORT... Prints one line for each server.
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Properties;
import oracle.jdbc.OracleConnection;

public class OracleNative {
    static String first(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery(sql)) {
            rows.next();
            return rows.getString(1);
        }
    }

    static int code(Connection connection, String sql) {
        try (Statement statement = connection.createStatement()) {
            statement.execute(sql);
            return 0;
        } catch (SQLException error) {
            return error.getErrorCode();
        }
    }

    static String use(Connection connection) throws SQLException {
        StringBuilder shown = new StringBuilder();
        OracleConnection oracle = connection.unwrap(OracleConnection.class);
        shown.append(oracle.getEncryptionAlgorithmName()).append(" ").append(oracle.getDataIntegrityAlgorithmName());
        shown.append(" ").append(first(connection, "select user from dual"));
        code(connection, "create table native_rows (id number, note clob)");
        try (PreparedStatement insert = connection.prepareStatement("insert into native_rows values (?, ?)")) {
            insert.setInt(1, 1);
            insert.setString(2, "note ".repeat(20000));
            insert.executeUpdate();
        }
        shown.append(" ").append(first(connection, "select note from native_rows").length());
        for (int times = 0; times < 3; times++) {
            shown.append(" ").append(code(connection, "select * from missing"));
        }
        shown.append(" ").append(first(connection, "select 6 from dual"));
        code(connection, "drop table native_rows");
        return shown.toString();
    }

    public static void main(String[] arguments) {
        for (int place = 4; place < arguments.length; place++) {
            Properties properties = new Properties();
            properties.setProperty("user", arguments[1]);
            properties.setProperty("password", arguments[2]);
            properties.setProperty("oracle.net.encryption_client", arguments[3]);
            properties.setProperty("oracle.net.crypto_checksum_client", arguments[3]);
            String url = "jdbc:oracle:thin:@//" + arguments[place] + "/" + arguments[0];
            try (Connection connection = DriverManager.getConnection(url, properties)) {
                System.out.println(use(connection));
            } catch (SQLException error) {
                System.out.println("error " + error.getMessage().replace('\n', ' '));
            }
        }
    }
}
