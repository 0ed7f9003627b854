import java.sql.*;
import java.util.*;

/** Output parameters with Microsoft's JDBC driver: HOST PORT USER PASSWORD DATABASE ENCRYPTION. Each line is
 * `case: values`, or `case: denied` for an error of a masking rule. */
public class MssqlOutputs {
    static Connection connection;

    static String call(String sql, int times, int... types) throws SQLException {
        StringJoiner found = new StringJoiner(" ");
        try (CallableStatement call = connection.prepareCall(sql)) {
            for (int i = 0; i < types.length; i++) call.registerOutParameter(i + 1, types[i]);
            for (int time = 0; time < times; time++) {
                call.execute();
                if (time == times - 1) for (int i = 0; i < types.length; i++) found.add("" + call.getObject(i + 1));
            }
            return found.toString();
        } catch (SQLException error) {
            return error.getMessage().contains("blocked by masking rule") ? "denied" : error.getMessage();
        }
    }

    public static void main(String[] arguments) throws SQLException {
        Properties properties = new Properties();
        properties.put("user", arguments[2]);
        properties.put("password", arguments[3]);
        properties.put("databaseName", arguments[4]);
        properties.put("encrypt", arguments[5]);
        if (arguments[5].equals("true")) properties.put("trustServerCertificate", "true");
        connection = DriverManager.getConnection("jdbc:sqlserver://" + arguments[0] + ":" + arguments[1], properties);
        // The driver writes OUT behind its parameters, so they are arguments of a call.
        String both = "exec sp_executesql N'select @x = name, @y = id from staff where id = 1',"
            + " N'@x nvarchar(40) output, @y int output', ?, ?";
        String length = "exec sp_executesql N'select @x = len(name) from staff where id = 1', N'@x int output', ?";
        System.out.println("values: " + call(both, 1, Types.NVARCHAR, Types.INTEGER));
        System.out.println("prepared: " + call(both, 4, Types.NVARCHAR, Types.INTEGER));
        System.out.println("known: " + call("exec sp_executesql N'set @x = 7', N'@x int output', ?", 1, Types.INTEGER));
        System.out.println("computed: " + call(length, 1, Types.INTEGER));
        System.out.println("procedure: " + call("{call p_out(?)}", 1, Types.NVARCHAR));
        System.out.println("return value: " + call("{? = call p_return}", 1, Types.INTEGER));
        connection.close();
    }
}
