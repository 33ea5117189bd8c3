package kappa.image;

import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.xbean.asm9.ClassReader;
import org.apache.xbean.asm9.ClassWriter;
import org.apache.xbean.asm9.Handle;
import org.apache.xbean.asm9.Opcodes;
import org.apache.xbean.asm9.tree.AbstractInsnNode;
import org.apache.xbean.asm9.tree.ClassNode;
import org.apache.xbean.asm9.tree.InvokeDynamicInsnNode;
import org.apache.xbean.asm9.tree.MethodInsnNode;
import org.apache.xbean.asm9.tree.MethodNode;

/** A class whose lambda expressions become classes. */
final class Host {
    private final ClassReader reader;
    private final ClassNode node = new ClassNode();
    private final Map<String, Integer> access = new HashMap<>();
    private final Map<String, byte[]> made = new LinkedHashMap<>();

    private Host(byte[] content) {
        reader = new ClassReader(content);
        reader.accept(node, 0);
        node.methods.forEach(method -> access.put(method.name + method.desc, method.access));
    }

    /** Returns the class and those of its expressions by their names; nothing if there is nothing to replace. */
    static Map<String, byte[]> split(byte[] content) {
        Host host = new Host(content);
        host.node.methods.forEach(host::replace);
        if (!host.made.isEmpty()) {
            ClassWriter writer = new ClassWriter(host.reader, 0);
            host.node.accept(writer);
            host.made.put(host.node.name, writer.toByteArray());
        }
        return host.made;
    }

    /** Returns whether the method is one of this class that others of its package can call. */
    boolean offers(Handle body) {
        int found = access.getOrDefault(body.getName() + body.getDesc(), Opcodes.ACC_PRIVATE);
        return body.getOwner().equals(node.name) && body.getTag() == Opcodes.H_INVOKESTATIC && (found & Opcodes.ACC_PRIVATE) == 0;
    }

    private void replace(MethodNode method) {
        for (AbstractInsnNode each : method.instructions.toArray()) {
            if (each instanceof InvokeDynamicInsnNode site) {
                Lambda.find(site, this).ifPresent(lambda -> {
                    String name = node.name + "$$Lambda$" + made.size();
                    made.put(name, lambda.build(name));
                    method.instructions.set(site, new MethodInsnNode(Opcodes.INVOKESTATIC, name, Lambda.MAKE, site.desc, false));
                });
            }
        }
    }
}
