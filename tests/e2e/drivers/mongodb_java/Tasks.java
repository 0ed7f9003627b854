import com.mongodb.MongoException;
import com.mongodb.WriteConcern;
import com.mongodb.client.ClientSession;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import com.mongodb.client.MongoCollection;
import com.mongodb.client.MongoDatabase;
import com.mongodb.client.gridfs.GridFSBucket;
import com.mongodb.client.gridfs.GridFSBuckets;
import com.mongodb.client.model.Filters;
import com.mongodb.client.model.Updates;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.bson.Document;

/** The tasks of test_mongodb_drivers.py with the Java driver. Arguments: the connection string, the name of a database. */
public class Tasks {
    static String fails(Runnable work) {
        try {
            work.run();
            return "no error";
        } catch (MongoException error) {
            return "" + error.getCode();
        }
    }

    public static void main(String[] arguments) {
        try (MongoClient client = MongoClients.create(arguments[0])) {
            run(client, client.getDatabase(arguments[1]));
        }
    }

    static void run(MongoClient client, MongoDatabase db) {
        db.drop();
        MongoCollection<Document> notes = db.getCollection("notes");
        List<Document> documents = IntStream.range(0, 5000)
                .mapToObj(n -> new Document("_id", n).append("group", n % 10).append("text", "grüße ".repeat(100)))
                .collect(Collectors.toList());
        notes.insertMany(documents);
        System.out.println("inserted " + notes.countDocuments());
        long sum = 0;
        for (Document note : notes.find().batchSize(500)) sum += note.getInteger("_id");
        System.out.println("read " + sum);
        List<String> groups = new ArrayList<>();
        var pipeline = List.of(
                Document.parse("{$group: {_id: '$group', n: {$sum: 1}}}"), Document.parse("{$sort: {_id: 1}}"));
        for (Document one : notes.aggregate(pipeline)) groups.add(one.get("_id") + ":" + one.get("n"));
        System.out.println("groups " + String.join(" ", groups));
        var short_ = Updates.set("text", "short");
        System.out.println("updated " + notes.updateMany(Filters.eq("group", 3), short_).getModifiedCount());
        System.out.println("distinct " + notes.distinct("group", Integer.class).into(new ArrayList<>()).size());
        Document changed = notes.findOneAndUpdate(Filters.eq("_id", 7), Updates.inc("group", 1));
        System.out.println("found and changed " + changed.get("_id"));
        System.out.println("duplicate " + fails(() -> notes.insertOne(new Document("_id", 7))));
        System.out.println("unknown command " + fails(() -> db.runCommand(new Document("noSuchCommand", 1))));
        System.out.println("denied " + fails(() -> db.getCollection("forbidden").deleteMany(new Document())));
        System.out.println("usable " + ((Number) db.runCommand(new Document("ping", 1)).get("ok")).intValue());
        try (ClientSession session = client.startSession()) {
            session.withTransaction(() -> {
                notes.insertOne(session, new Document("_id", "in a transaction"));
                return notes.deleteOne(session, Filters.eq("_id", 8));
            });
        }
        System.out.println("committed " + notes.countDocuments(Filters.in("_id", "in a transaction", 8)));
        GridFSBucket bucket = GridFSBuckets.create(db);
        bucket.uploadFromStream("file", new ByteArrayInputStream(new byte[1000000]));
        ByteArrayOutputStream file = new ByteArrayOutputStream();
        bucket.downloadToStream("file", file);
        System.out.println("file " + file.size());
        try (var changes = notes.watch().cursor()) {
            notes.insertOne(new Document("_id", "watched"));
            System.out.println("change " + changes.next().getDocumentKey().getString("_id").getValue());
        }
        var silent = db.getCollection("silent");
        silent.withWriteConcern(WriteConcern.UNACKNOWLEDGED).insertOne(new Document("_id", 1));
        while (silent.countDocuments() == 0) Thread.onSpinWait();
        System.out.println("unacknowledged " + silent.countDocuments());
        int together = IntStream.range(0, 10).parallel()
                .map(group -> notes.find(Filters.eq("group", group)).batchSize(50).into(new ArrayList<>()).size())
                .sum();
        System.out.println("in parallel " + together);
    }
}
