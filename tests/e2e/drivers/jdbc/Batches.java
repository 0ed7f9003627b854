import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;

/** Batches of JDBC against the URL in the first argument. Prints one line for each step: what the test compares. */
public final class Batches {
    private static final String INSERT = "insert into batched values (1)";
    private static final String DENIED = "drop table pg_catalog.pg_class";

    private final Connection connection;

    private Batches(Connection connection) {
        this.connection = connection;
    }

    private interface Step {
        void run() throws SQLException;
    }

    private void insertAll(int count, int zeroAt) throws SQLException {
        try (PreparedStatement insert = connection.prepareStatement("insert into batched values (1000 / ?)")) {
            for (int n = 1; n <= count; n++) {
                insert.setInt(1, n == zeroAt ? 0 : n);
                insert.addBatch();
            }
            insert.executeBatch();
        }
    }

    private void runAll(String... statements) throws SQLException {
        try (Statement batch = connection.createStatement()) {
            for (String statement : statements) {
                batch.addBatch(statement);
            }
            batch.executeBatch();
        }
    }

    private void fetchInParts() throws SQLException {
        try (Statement select = connection.createStatement()) {
            select.setFetchSize(7);
            int seen = 0;
            try (ResultSet rows = select.executeQuery("select n from generate_series(1, 100) n")) {
                while (rows.next()) {
                    seen++;
                }
            }
            if (seen != 100) {
                throw new SQLException(seen + " rows");
            }
        }
    }

    private int rows() throws SQLException {
        try (Statement count = connection.createStatement();
                ResultSet row = count.executeQuery("select count(*) from batched")) {
            row.next();
            return row.getInt(1);
        }
    }

    private void report(String name, Step step) throws SQLException {
        String outcome = "ok";
        try {
            step.run();
            if (!connection.getAutoCommit()) {
                connection.commit();
            }
        } catch (SQLException error) {
            outcome = error.getSQLState();
            if (!connection.getAutoCommit()) {
                connection.rollback();
            }
        }
        System.out.println(name + " " + outcome + " " + rows());
    }

    public static void main(String[] arguments) throws SQLException {
        try (Connection connection = DriverManager.getConnection(arguments[0])) {
            Batches batches = new Batches(connection);
            batches.runAll("create temp table batched (n int)");
            for (boolean each : new boolean[] {true, false}) {
                connection.setAutoCommit(each);
                String mode = each ? "autocommit " : "transaction ";
                batches.report(mode + "batch", () -> batches.insertAll(3, 0));
                batches.report(mode + "large batch", () -> batches.insertAll(5000, 0));
                batches.report(mode + "failing batch", () -> batches.insertAll(100, 50));
                batches.report(mode + "denied batch", () -> batches.runAll(INSERT, DENIED));
                batches.report(mode + "fetch in parts", batches::fetchInParts);
            }
            connection.setAutoCommit(true);
            batches.runAll("set statement_timeout = '200ms'");
            batches.report("statement_timeout", () -> batches.runAll(INSERT, "select pg_sleep(60)"));
        }
    }
}
