package kappa.json;

import java.util.function.Supplier;
import kappa.plan.SessionFilters;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/** The setting `spark.sql.extensions` names this class; each session then has the rule for JSON, after Spark's own ones, and those for filters over sessions. */
public final class Extensions extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
    @Override
    public BoxedUnit apply(SparkSessionExtensions extensions) {
        extensions.injectPreCBORule(build(ReplaceJson::new));
        extensions.injectPlanNormalizationRule(build(SessionFilters.Hold::new));
        extensions.injectOptimizerRule(build(SessionFilters.Pass::new));
        return BoxedUnit.UNIT;
    }

    private static AbstractFunction1<SparkSession, Rule<LogicalPlan>> build(Supplier<Rule<LogicalPlan>> rule) {
        return new AbstractFunction1<>() {
            @Override
            public Rule<LogicalPlan> apply(SparkSession session) {
                return rule.get();
            }
        };
    }
}
