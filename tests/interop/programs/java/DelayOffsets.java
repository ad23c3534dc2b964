import java.io.File;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.store.schedule.DelayOffsetSerializeWrapper;

/**
 * DelayOffsets file=: prints what a Java broker makes of a delayOffset.json, and the text that it would write in its
 * place.
 */
public class DelayOffsets {
    public static void main(String[] args) throws Exception {
        Lines lines = new Lines(args);
        String text = MixAll.file2String(new File(lines.get("file")));
        DelayOffsetSerializeWrapper read = DelayOffsetSerializeWrapper.fromJson(text, DelayOffsetSerializeWrapper.class);
        Map<String, Object> line = Lines.line("delayOffsets");
        Map<String, Long> offsets = new TreeMap<>();
        read.getOffsetTable().forEach((level, offset) -> offsets.put(level.toString(), offset));
        line.put("offsets", offsets);
        line.put("text", read.toJson(true));
        Lines.print(line);
    }
}
