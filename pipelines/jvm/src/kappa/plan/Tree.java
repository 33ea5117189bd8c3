package kappa.plan;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.plans.QueryPlan;
import org.apache.spark.sql.catalyst.plans.logical.Expand;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import scala.collection.Iterable;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What Python's walks need of a plan or an expression, as one text: a walk in requests to the JVM takes a dozen of them for each node.
 *
 * A line, with a NUL at its end, is a node: its depth, what it is of the node above (`C` a child, `E` an expression), its kind, its facts, and
 * a name or nothing, with tabs between. Facts are the letters below, then the number of a column. The children of a node are before its
 * expressions.
 */
public final class Tree {
    private static final String DELAY = "spark.watermarkDelayMs";
    private static final char STREAMING = 'S', CONTAINS_PLAN = 'P', WATERMARK = 'W', END = 0;

    private final List<TreeNode<?>> nodes = new ArrayList<>();
    private final StringBuilder text = new StringBuilder();

    private record Entry(TreeNode<?> node, int depth, char relation) {}

    private Tree() {}

    /** Return the tree of a plan or an expression. */
    public static Tree of(TreeNode<?> root) {
        Tree tree = new Tree();
        Deque<Entry> pending = new ArrayDeque<>();  // no recursion: a statement may be nested deeply
        pending.push(new Entry(root, 0, 'C'));
        while (!pending.isEmpty()) {
            Entry entry = pending.pop();
            tree.add(entry);
            List<Entry> below = new ArrayList<>();
            collect(below, entry.node().children(), entry.depth() + 1, 'C');
            if (entry.node() instanceof QueryPlan<?> plan) {
                // The projections of an Expand are one for each window or grouping set, and alike.
                collect(below, plan instanceof Expand expand ? expand.projections().head() : plan.expressions(), entry.depth() + 1, 'E');
            }
            for (int index = below.size() - 1; index >= 0; index--) {
                pending.push(below.get(index));
            }
        }
        return tree;
    }

    /** Return the lines. */
    public String text() {
        return text.toString();
    }

    /** Return a node by its line, counted from 0. */
    public Object node(int line) {
        return nodes.get(line);
    }

    private static void collect(List<Entry> found, Iterable<?> nodes, int depth, char relation) {
        Collection<?> each = CollectionConverters.asJavaCollection(nodes);
        each.forEach(node -> found.add(new Entry((TreeNode<?>) node, depth, relation)));
    }

    private void add(Entry entry) {
        TreeNode<?> node = entry.node();
        nodes.add(node);
        text.append(entry.depth()).append('\t').append(entry.relation()).append('\t').append(node.getClass().getSimpleName()).append('\t');
        String name = node instanceof LogicalPlan plan ? addPlan(plan) : addExpression(node);
        text.append('\t').append(name.replace(END, ' ')).append(END);
    }

    private String addPlan(LogicalPlan plan) {
        if (plan.isStreaming()) {
            text.append(STREAMING);
        }
        return plan instanceof SubqueryAlias named ? named.alias() : "";
    }

    private String addExpression(TreeNode<?> node) {
        if (node instanceof PlanExpression) {
            text.append(CONTAINS_PLAN);
        }
        boolean isColumn = node instanceof AttributeReference || node instanceof Alias alias && alias.resolved();
        if (!isColumn) {
            return "";
        }
        NamedExpression column = (NamedExpression) node;
        if (column.metadata().contains(DELAY)) {
            text.append(WATERMARK);
        }
        text.append(column.exprId().id());
        return column.name();
    }
}
