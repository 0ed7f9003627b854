// Does the tasks of test_oracle_direct.py by JDBC: HOST PORT SERVICE USER PASSWORD.
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.sql.CallableStatement;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.sql.Types;
import java.util.Arrays;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.Set;

public class OracleTasks {
    interface Work {
        void run() throws SQLException;
    }

    static String[] arguments;
    static Connection connection;

    static Connection connect(String service, String password) throws SQLException {
        String url = "jdbc:oracle:thin:@//" + arguments[0] + ":" + arguments[1] + "/" + service;
        return DriverManager.getConnection(url, arguments[3], password);
    }

    static void print(Object... words) throws Exception {
        StringBuilder line = new StringBuilder();
        for (Object word : words) {
            line.append(line.length() == 0 ? "" : " ").append(Boolean.TRUE.equals(word) ? "True" : word);
        }
        line.append("\n");
        System.out.write(line.toString().getBytes(StandardCharsets.UTF_8));
        System.out.flush();
    }

    static String code(Work work) {
        try {
            work.run();
            return "no error";
        } catch (SQLException error) {
            return String.valueOf(error.getErrorCode());
        }
    }

    static int update(String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            return statement.executeUpdate(sql);
        }
    }

    static Object first(String sql) throws SQLException {
        try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery(sql)) {
            rows.next();
            return rows.getObject(1);
        }
    }

    static String moment(Timestamp value) {
        return value == null ? "null" : value.toLocalDateTime().format(
            java.time.format.DateTimeFormatter.ofPattern("uuuu-MM-dd HH:mm:ss.SSS"));
    }

    static void printTypes() throws Exception {
        update("create table java_types (id number(10) primary key, amount number(12,2), name varchar2(40), born date,"
            + " seen timestamp(6), token raw(16), ratio binary_double, title nvarchar2(40))");
        String insert = "insert into java_types values (?, ?, ?, ?, ?, ?, ?, ?)";
        try (PreparedStatement statement = connection.prepareStatement(insert)) {
            statement.setInt(1, 1);
            statement.setBigDecimal(2, new BigDecimal("1234567.25"));
            statement.setString(3, "Zo\u00eb");
            statement.setTimestamp(4, Timestamp.valueOf("1990-02-03 04:05:06"));
            statement.setTimestamp(5, Timestamp.valueOf("2024-01-02 03:04:05.678"));
            statement.setBytes(6, new byte[] {0, (byte) 0xff, 0x10});
            statement.setDouble(7, 1.5);
            statement.setNString(8, "\u00c6r\u00f8");
            statement.executeUpdate();
            statement.setInt(1, 2);
            statement.setBigDecimal(2, new BigDecimal("-0.5"));
            int[] kinds = {Types.VARCHAR, Types.TIMESTAMP, Types.TIMESTAMP, Types.VARBINARY, Types.DOUBLE, Types.NVARCHAR};
            for (int n = 0; n < kinds.length; n++) {
                statement.setNull(n + 3, kinds[n]);
            }
            statement.executeUpdate();
        }
        try (Statement statement = connection.createStatement();
                ResultSet row = statement.executeQuery("select * from java_types order by id")) {
            for (String name : new String[] {"types", "nulls"}) {
                row.next();
                byte[] token = row.getBytes(6);
                double ratio = row.getDouble(7);
                print(name, row.getInt(1), row.getBigDecimal(2), row.getString(3), moment(row.getTimestamp(4)),
                    moment(row.getTimestamp(5)), token == null ? "null" : HexFormat.of().formatHex(token),
                    row.wasNull() || token == null ? "null" : ratio, row.getNString(8));
            }
        }
    }

    static void printLobs() throws Exception {
        update("create table java_lobs (id number, note clob, photo blob)");
        String note = "\u00e9a".repeat(30000);
        byte[] photo = new byte[76800];
        for (int n = 0; n < photo.length; n++) {
            photo[n] = (byte) n;
        }
        try (PreparedStatement statement = connection.prepareStatement("insert into java_lobs values (1, ?, ?)")) {
            java.sql.Clob clob = connection.createClob();
            clob.setString(1, note);
            java.sql.Blob blob = connection.createBlob();
            blob.setBytes(1, photo);
            statement.setClob(1, clob);
            statement.setBlob(2, blob);
            statement.executeUpdate();
        }
        try (Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("select note, photo from java_lobs")) {
            rows.next();
            String readNote = rows.getString(1);
            byte[] readPhoto = rows.getBytes(2);
            print("lobs", readNote.length(), readNote.equals(note), readPhoto.length, Arrays.equals(photo, readPhoto));
        }
    }

    static void printRows() throws Exception {
        update("create table java_rows (id number(10) primary key, name varchar2(20) not null)");
        connection.setAutoCommit(false);
        try (PreparedStatement statement = connection.prepareStatement("insert into java_rows values (?, ?)")) {
            for (int n = 0; n < 1000; n++) {
                statement.setInt(1, n);
                statement.setString(2, "name " + n / 7);
                statement.addBatch();
            }
            print("array", Arrays.stream(statement.executeBatch()).sum());
        }
        int count = 0, sum = 0;
        Set<String> names = new HashSet<>();
        try (Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("select id, name from java_rows order by id")) {
            while (rows.next()) {
                count++;
                sum += rows.getInt(1);
                names.add(rows.getString(2));
            }
        }
        print("rows", count, sum, names.size());
        connection.commit();
        int deleted;
        try (PreparedStatement statement = connection.prepareStatement("delete from java_rows where id >= ?")) {
            statement.setInt(1, 10);
            deleted = statement.executeUpdate();
        }
        connection.rollback();
        print("transaction", deleted, first("select count(*) from java_rows"));
        connection.setAutoCommit(true);
        print("errors", code(() -> first("select * from missing")),
            code(() -> update("insert into java_rows values (1, 'twice')")),
            code(() -> update("insert into java_rows values (2000, null)")),
            code(() -> first("select missing from java_rows")));
    }

    static void printBlocks() throws Exception {
        try (CallableStatement call = connection.prepareCall("begin ? := 6 * 7; end;")) {
            call.registerOutParameter(1, Types.INTEGER);
            call.execute();
            print("block", call.getInt(1));
        }
        update("create sequence java_sequence start with 100");
        update("insert into java_rows values (java_sequence.nextval + 5000, 'new')");
        print("sequence", first("select max(id) from java_rows"));
        String opened = "begin open ? for select id, name from java_rows where id < 3 order by id; end;";
        try (CallableStatement call = connection.prepareCall(opened)) {
            call.registerOutParameter(1, Types.REF_CURSOR);
            call.execute();
            StringBuilder people = new StringBuilder();
            try (ResultSet rows = (ResultSet) call.getObject(1)) {
                while (rows.next()) {
                    people.append(" ").append(rows.getInt(1)).append("=").append(rows.getString(2));
                }
            }
            print("cursor" + people);
        }
        update("begin dbms_output.enable(null); end;");
        update("begin dbms_output.put_line('printed by ' || 'a block'); end;");
        try (CallableStatement call = connection.prepareCall("begin dbms_output.get_line(?, ?); end;")) {
            call.registerOutParameter(1, Types.VARCHAR);
            call.registerOutParameter(2, Types.INTEGER);
            call.execute();
            print("output", call.getString(1));
        }
    }

    public static void main(String[] given) throws Exception {
        arguments = given;
        connection = connect(arguments[2], arguments[4]);
        print("user", first("select user from dual"));
        printTypes();
        printLobs();
        printRows();
        printBlocks();
        String cancelled = code(() -> {
            try (Statement statement = connection.createStatement()) {
                statement.setQueryTimeout(1);
                statement.execute("begin dbms_session.sleep(30); end;");
            }
        });
        print("cancelled", !cancelled.equals("no error"), first("select 6 from dual"));
        connection.close();
        print("denied", code(() -> connect(arguments[2], "wrong")));
        print("refused", !code(() -> connect("missing", arguments[4])).equals("no error"));
    }
}
