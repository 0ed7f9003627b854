import com.microsoft.sqlserver.jdbc.SQLServerBulkCopy;
import com.microsoft.sqlserver.jdbc.SQLServerDataTable;
import com.microsoft.sqlserver.jdbc.SQLServerPreparedStatement;
import java.sql.*;
import java.util.*;

/** Tasks with Microsoft's JDBC driver: HOST PORT USER PASSWORD DATABASE ENCRYPTION OPTIONS. Each prints `task: answer`. */
public class MssqlTasks {
    static final String TYPES = "select cast(7 as tinyint), cast(-300 as smallint), 100000, cast(9000000000 as bigint), cast(1 as bit),"
        + " cast(0.5 as float), cast('12.50' as decimal(10,2)), cast('3.25' as money), cast('grün' as varchar(10)), N'żółw',"
        + " cast('ab' as char(4)), cast(0x0102 as varbinary(8)), cast('2024-02-29' as date),"
        + " cast('2024-02-29 13:14:15.123' as datetime), cast('2024-02-29 13:14:15.1234567' as datetime2), cast('13:14:15' as time(0)),"
        + " cast('6F9619FF-8B86-D011-B42D-00C04FC964FF' as uniqueidentifier), cast(N'<a>ü</a>' as xml), null";

    interface Task { String run() throws SQLException; }

    static Connection connection;

    static List<List<Object>> rows(ResultSet set) throws SQLException {
        List<List<Object>> rows = new ArrayList<>();
        while (set.next()) {
            List<Object> row = new ArrayList<>();
            for (int i = 1; i <= set.getMetaData().getColumnCount(); i++) row.add(set.getObject(i));
            rows.add(row);
        }
        return rows;
    }

    static List<List<Object>> query(String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) { return rows(statement.executeQuery(sql)); }
    }

    static int execute(String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(sql);
            return statement.getUpdateCount();
        }
    }

    static String shown(Object value) {
        if (value == null) return "None";
        if (value instanceof Boolean b) return b ? "1" : "0";
        if (value instanceof byte[] data) return HexFormat.of().formatHex(data);
        if (value instanceof java.math.BigDecimal number) return number.stripTrailingZeros().toPlainString();
        return value.toString();
    }

    static String fails(String sql) {
        try { execute(sql); return "no error"; } catch (SQLException error) { return "" + error.getErrorCode(); }
    }

    static String joined(List<?> values) {
        StringJoiner joiner = new StringJoiner(" ");
        for (Object value : values) joiner.add(shown(value));
        return joiner.toString();
    }

    static String parameters() throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement("select ?, ?, ?, ?")) {
            statement.setInt(1, 5);
            statement.setString(2, "grün");
            statement.setBigDecimal(3, new java.math.BigDecimal("1.5"));
            statement.setNull(4, Types.INTEGER);
            return joined(rows(statement.executeQuery()).get(0));
        }
    }

    static String repeated() throws SQLException {
        List<Object> answers = new ArrayList<>();
        try (PreparedStatement statement = connection.prepareStatement("select ? * 2")) {
            for (int i = 0; i < 4; i++) {
                statement.setInt(1, i);
                answers.add(rows(statement.executeQuery()).get(0).get(0));
            }
        }
        return joined(answers);
    }

    static String results() throws SQLException {
        List<Object> counts = new ArrayList<>();
        try (Statement statement = connection.createStatement()) {
            boolean more = statement.execute("select 1; select 2 union all select 3");
            while (more) {
                counts.add(rows(statement.getResultSet()).size());
                more = statement.getMoreResults();
            }
        }
        return joined(counts);
    }

    static String manyRows() throws SQLException {
        long sum = 0;
        for (List<Object> row : query("with n as (select 1 as i union all select i + 1 from n where i < 5000) select i from n option (maxrecursion 0)"))
            sum += (Integer) row.get(0);
        return "" + sum;
    }

    static String largeValue() throws SQLException {
        String text = "ü".repeat(100_000);
        try (PreparedStatement statement = connection.prepareStatement("select ?")) {
            statement.setString(1, text);
            return rows(statement.executeQuery()).get(0).get(0).equals(text) ? "True" : "False";
        }
    }

    static String changes() throws SQLException {
        execute("create table #changes (id int identity(1,1) primary key, name nvarchar(10))");
        return execute("insert into #changes (name) values ('a'), ('b'), ('c')") + " "
            + execute("update #changes set name = 'x' where id > 1") + " " + execute("delete from #changes");
    }

    static String errors() throws SQLException {
        execute("create table #errors (id int primary key, name nvarchar(3)); insert into #errors values (1, 'a')");
        return String.join(" ", fails("select 1/0"), fails("select cast('abc' as int)"), fails("insert into #errors values (1, 'b')"),
            fails("insert into #errors values (2, 'abcd')"));
    }

    static String transactions() throws SQLException {
        execute("if object_id('tx_java') is not null drop table tx_java; create table tx_java (id int)");
        List<Object> counts = new ArrayList<>();
        for (boolean commits : new boolean[] {false, true}) {
            connection.setAutoCommit(false);
            execute("insert into tx_java values (1)");
            if (commits) connection.commit(); else connection.rollback();
            connection.setAutoCommit(true);
            counts.add(query("select count(*) from tx_java").get(0).get(0));
        }
        return joined(counts);
    }

    static String procedure() throws SQLException {
        execute("create or alter procedure twice_java @a int, @b int output as begin set @b = @a * 2 end");
        try (CallableStatement call = connection.prepareCall("{call twice_java(?, ?)}")) {
            call.setInt(1, 21);
            call.registerOutParameter(2, Types.INTEGER);
            call.execute();
            return "" + call.getInt(2);
        }
    }

    static String batch() throws SQLException {
        execute("create table #batch (id int, name nvarchar(20))");
        try (PreparedStatement statement = connection.prepareStatement("insert into #batch values (?, ?)")) {
            for (int i = 0; i < 50; i++) {
                statement.setInt(1, i);
                statement.setString(2, "n" + i);
                statement.addBatch();
            }
            statement.executeBatch();
        }
        return "" + query("select sum(id) from #batch").get(0).get(0);
    }

    static SQLServerDataTable table(int rows) throws SQLException {
        SQLServerDataTable table = new SQLServerDataTable();
        table.addColumnMetadata("id", Types.INTEGER);
        table.addColumnMetadata("name", Types.NVARCHAR);
        for (int i = 0; i < rows; i++) table.addRow(i, "ü" + i);
        return table;
    }

    static String bulk() throws SQLException {
        execute("create table #bulk (id int, name nvarchar(20))");
        try (SQLServerBulkCopy copy = new SQLServerBulkCopy(connection);
             Statement statement = connection.createStatement();
             ResultSet source = statement.executeQuery(
                 "with n as (select 0 as i union all select i + 1 from n where i < 999) select i as id, N'n' as name from n")) {
            copy.setDestinationTableName("#bulk");
            copy.writeToServer(source);
        }
        return "" + query("select sum(id) from #bulk").get(0).get(0);
    }

    static String tableValue() throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement("select * from ?")) {
            ((SQLServerPreparedStatement) statement).setStructured(1, "dbo.pair", table(2));
            List<Object> found = new ArrayList<>();
            for (List<Object> row : rows(statement.executeQuery())) found.add(row.get(0) + "=" + row.get(1));
            return joined(found);
        }
    }

    static String cancelled() throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.setQueryTimeout(1);
            statement.execute("waitfor delay '00:00:30'");
            return "ran";
        } catch (SQLTimeoutException error) {
            return "" + query("select 5").get(0).get(0);
        }
    }

    static String scrolled() throws SQLException {
        execute("create table #scrolled (id int); insert into #scrolled values (1), (2), (3), (4)");
        try (Statement statement = connection.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_READ_ONLY)) {
            ResultSet set = statement.executeQuery("select id from #scrolled order by id");
            List<Object> seen = new ArrayList<>();
            set.last();
            seen.add(set.getInt(1));
            set.absolute(2);
            seen.add(set.getInt(1));
            set.previous();
            seen.add(set.getInt(1));
            return joined(seen);
        }
    }

    static String schema() throws SQLException {
        execute("if object_id('described') is not null drop table described; create table described (id int not null, name nvarchar(20))");
        List<Object> found = new ArrayList<>();
        try (ResultSet columns = connection.getMetaData().getColumns(null, "dbo", "described", null)) {
            while (columns.next()) found.add(columns.getString("COLUMN_NAME") + "=" + columns.getString("TYPE_NAME"));
        }
        return joined(found);
    }

    public static void main(String[] arguments) throws SQLException {
        Properties properties = new Properties();
        properties.put("user", arguments[2]);
        properties.put("password", arguments[3]);
        properties.put("databaseName", arguments[4]);
        properties.put("encrypt", arguments[5]);
        if (arguments[5].equals("true")) properties.put("trustServerCertificate", "true");
        for (int i = 6; i < arguments.length; i++) properties.put(arguments[i].split("=")[0], arguments[i].split("=", 2)[1]);
        connection = DriverManager.getConnection("jdbc:sqlserver://" + arguments[0] + ":" + arguments[1], properties);
        Map<String, Task> tasks = new LinkedHashMap<>();
        tasks.put("types", () -> joined(query(TYPES).get(0)));
        tasks.put("parameters", MssqlTasks::parameters);
        tasks.put("repeated", MssqlTasks::repeated);
        tasks.put("results", MssqlTasks::results);
        tasks.put("many rows", MssqlTasks::manyRows);
        tasks.put("large value", MssqlTasks::largeValue);
        tasks.put("changes", MssqlTasks::changes);
        tasks.put("errors", MssqlTasks::errors);
        tasks.put("transactions", MssqlTasks::transactions);
        tasks.put("procedure", MssqlTasks::procedure);
        tasks.put("batch", MssqlTasks::batch);
        tasks.put("bulk", MssqlTasks::bulk);
        tasks.put("table value", MssqlTasks::tableValue);
        tasks.put("cancelled", MssqlTasks::cancelled);
        tasks.put("scrolled", MssqlTasks::scrolled);
        tasks.put("schema", MssqlTasks::schema);
        for (Map.Entry<String, Task> task : tasks.entrySet()) System.out.println(task.getKey() + ": " + task.getValue().run());
        connection.close();
    }
}
