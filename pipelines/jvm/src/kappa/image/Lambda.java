package kappa.image;

import static org.apache.xbean.asm9.Opcodes.ACC_FINAL;
import static org.apache.xbean.asm9.Opcodes.ACC_PRIVATE;
import static org.apache.xbean.asm9.Opcodes.ACC_PUBLIC;
import static org.apache.xbean.asm9.Opcodes.ACC_STATIC;
import static org.apache.xbean.asm9.Opcodes.ACC_SUPER;
import static org.apache.xbean.asm9.Opcodes.ALOAD;
import static org.apache.xbean.asm9.Opcodes.CHECKCAST;
import static org.apache.xbean.asm9.Opcodes.DUP;
import static org.apache.xbean.asm9.Opcodes.GETFIELD;
import static org.apache.xbean.asm9.Opcodes.GETSTATIC;
import static org.apache.xbean.asm9.Opcodes.ILOAD;
import static org.apache.xbean.asm9.Opcodes.INVOKESPECIAL;
import static org.apache.xbean.asm9.Opcodes.INVOKESTATIC;
import static org.apache.xbean.asm9.Opcodes.IRETURN;
import static org.apache.xbean.asm9.Opcodes.NEW;
import static org.apache.xbean.asm9.Opcodes.PUTFIELD;
import static org.apache.xbean.asm9.Opcodes.PUTSTATIC;
import static org.apache.xbean.asm9.Opcodes.RETURN;
import static org.apache.xbean.asm9.Opcodes.V17;

import java.lang.invoke.LambdaMetafactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.apache.xbean.asm9.ClassWriter;
import org.apache.xbean.asm9.Handle;
import org.apache.xbean.asm9.MethodVisitor;
import org.apache.xbean.asm9.Type;
import org.apache.xbean.asm9.tree.InvokeDynamicInsnNode;

/**
 * A lambda expression that calls {@code LambdaMetafactory.altMetafactory}, and the class that does the same without it.
 *
 * <p>The class has the method of the functional interface, and one for each of its other signatures. An expression that captures nothing has one
 * object, as from the factory. The class has no {@code writeReplace}: its objects are serialized by their fields, as those of any class.
 */
final class Lambda {
    static final String MAKE = "make";
    static final String FACTORY = "altMetafactory";
    private static final String SINGLE = "SINGLE";
    private static final String OBJECT = "java/lang/Object";

    private final String method;
    private final String site;
    private final Handle body;
    private final Set<String> interfaces = new LinkedHashSet<>();
    private final Set<String> signatures = new LinkedHashSet<>();
    private final boolean serializable;

    private Lambda(InvokeDynamicInsnNode site) {
        this.method = site.name;
        this.site = site.desc;
        this.body = (Handle) site.bsmArgs[1];
        interfaces.add(Type.getReturnType(site.desc).getInternalName());
        signatures.add(((Type) site.bsmArgs[0]).getDescriptor());
        int flags = (Integer) site.bsmArgs[3];
        int next = 4;
        if ((flags & LambdaMetafactory.FLAG_MARKERS) != 0) {
            int end = next + 1 + (Integer) site.bsmArgs[next];
            for (next++; next < end; next++) {
                interfaces.add(((Type) site.bsmArgs[next]).getInternalName());
            }
        }
        if ((flags & LambdaMetafactory.FLAG_BRIDGES) != 0) {
            int end = next + 1 + (Integer) site.bsmArgs[next];
            for (next++; next < end; next++) {
                signatures.add(((Type) site.bsmArgs[next]).getDescriptor());
            }
        }
        serializable = (flags & LambdaMetafactory.FLAG_SERIALIZABLE) != 0;
        if (serializable) {
            interfaces.add("java/io/Serializable");
        }
    }

    /** Returns the expression of an instruction, if it is one that calls a method of its own class in a way that needs no conversion. */
    static Optional<Lambda> find(InvokeDynamicInsnNode site, Host host) {
        if (!site.bsm.getOwner().equals("java/lang/invoke/LambdaMetafactory") || !site.bsm.getName().equals(FACTORY)) {
            return Optional.empty();
        }
        Lambda found = new Lambda(site);
        boolean simple = found.signatures.stream().allMatch(found::isSimple);
        return simple && found.capturesAll() && host.offers(found.body) ? Optional.of(found) : Optional.empty();
    }

    private List<Type> captured() {
        return Arrays.asList(Type.getArgumentTypes(site));
    }

    private List<Type> parameters() {
        return Arrays.asList(Type.getArgumentTypes(body.getDesc()));
    }

    /** Returns whether the first parameters of the body have the types of what is captured. */
    private boolean capturesAll() {
        return parameters().size() >= captured().size() && parameters().subList(0, captured().size()).equals(captured());
    }

    /** Returns whether a method with the signature can call the body with casts alone. */
    private boolean isSimple(String signature) {
        List<Type> given = new ArrayList<>(captured());
        given.addAll(Arrays.asList(Type.getArgumentTypes(signature)));
        if (given.size() != parameters().size() || !isCast(Type.getReturnType(body.getDesc()), Type.getReturnType(signature))) {
            return false;
        }
        for (int index = 0; index < given.size(); index++) {
            if (!isCast(given.get(index), parameters().get(index))) {
                return false;
            }
        }
        return true;
    }

    private static boolean isCast(Type from, Type to) {
        return from.equals(to) || from.getSort() >= Type.ARRAY && to.getSort() >= Type.ARRAY;
    }

    /** Returns the class with this name. */
    byte[] build(String name) {
        ClassWriter made = new ClassWriter(ClassWriter.COMPUTE_MAXS);
        made.visit(V17, ACC_FINAL | ACC_SUPER, name, null, OBJECT, interfaces.toArray(String[]::new));
        if (serializable) {
            made.visitField(ACC_PRIVATE | ACC_STATIC | ACC_FINAL, "serialVersionUID", "J", null, 1L).visitEnd();
        }
        for (int index = 0; index < captured().size(); index++) {
            made.visitField(ACC_PRIVATE | ACC_FINAL, "arg" + index, captured().get(index).getDescriptor(), null, null).visitEnd();
        }
        addConstructor(made, name);
        addFactory(made, name);
        signatures.forEach(signature -> addMethod(made, name, signature));
        made.visitEnd();
        return made.toByteArray();
    }

    private String constructor() {
        return Type.getMethodDescriptor(Type.VOID_TYPE, Type.getArgumentTypes(site));
    }

    private void addConstructor(ClassWriter made, String name) {
        MethodVisitor code = made.visitMethod(ACC_PRIVATE, "<init>", constructor(), null, null);
        code.visitCode();
        code.visitVarInsn(ALOAD, 0);
        code.visitMethodInsn(INVOKESPECIAL, OBJECT, "<init>", "()V", false);
        int slot = 1;
        for (int index = 0; index < captured().size(); index++) {
            Type type = captured().get(index);
            code.visitVarInsn(ALOAD, 0);
            code.visitVarInsn(type.getOpcode(ILOAD), slot);
            code.visitFieldInsn(PUTFIELD, name, "arg" + index, type.getDescriptor());
            slot += type.getSize();
        }
        end(code, Type.VOID_TYPE);
    }

    private void addFactory(ClassWriter made, String name) {
        String own = "L" + name + ";";
        boolean single = captured().isEmpty();
        if (single) {
            made.visitField(ACC_PRIVATE | ACC_STATIC | ACC_FINAL, SINGLE, own, null, null).visitEnd();
            MethodVisitor start = made.visitMethod(ACC_STATIC, "<clinit>", "()V", null, null);
            start.visitCode();
            create(start, name);
            start.visitFieldInsn(PUTSTATIC, name, SINGLE, own);
            end(start, Type.VOID_TYPE);
        }
        MethodVisitor code = made.visitMethod(ACC_STATIC, MAKE, site, null, null);
        code.visitCode();
        if (single) {
            code.visitFieldInsn(GETSTATIC, name, SINGLE, own);
        } else {
            create(code, name);
        }
        end(code, Type.getReturnType(site));
    }

    private void create(MethodVisitor code, String name) {
        code.visitTypeInsn(NEW, name);
        code.visitInsn(DUP);
        load(code, captured(), captured(), 0);
        code.visitMethodInsn(INVOKESPECIAL, name, "<init>", constructor(), false);
    }

    private void addMethod(ClassWriter made, String name, String signature) {
        MethodVisitor code = made.visitMethod(ACC_PUBLIC, method, signature, null, null);
        code.visitCode();
        for (int index = 0; index < captured().size(); index++) {
            code.visitVarInsn(ALOAD, 0);
            code.visitFieldInsn(GETFIELD, name, "arg" + index, captured().get(index).getDescriptor());
        }
        List<Type> wanted = parameters().subList(captured().size(), parameters().size());
        load(code, Arrays.asList(Type.getArgumentTypes(signature)), wanted, 1);
        code.visitMethodInsn(INVOKESTATIC, body.getOwner(), body.getName(), body.getDesc(), body.isInterface());
        cast(code, Type.getReturnType(body.getDesc()), Type.getReturnType(signature));
        end(code, Type.getReturnType(signature));
    }

    private static void load(MethodVisitor code, List<Type> given, List<Type> wanted, int first) {
        int slot = first;
        for (int index = 0; index < given.size(); index++) {
            code.visitVarInsn(given.get(index).getOpcode(ILOAD), slot);
            cast(code, given.get(index), wanted.get(index));
            slot += given.get(index).getSize();
        }
    }

    private static void cast(MethodVisitor code, Type from, Type to) {
        if (!from.equals(to) && !to.getInternalName().equals(OBJECT)) {
            code.visitTypeInsn(CHECKCAST, to.getInternalName());
        }
    }

    private static void end(MethodVisitor code, Type type) {
        code.visitInsn(type.equals(Type.VOID_TYPE) ? RETURN : type.getOpcode(IRETURN));
        code.visitMaxs(0, 0);
        code.visitEnd();
    }
}
