"""One topic: what is written to it, and how far its consumer groups are. The names are those of kafka-lag-exporter, so that its dashboards work too."""

from kappa_monitoring.boards.model import Board, Panel, Query, Row, Variable

_TOPIC = 'cluster_name="$cluster_name", topic="$topic"'


def _of_partitions(metric: str) -> str:
    return f"max by (partition) ({metric}{{{_TOPIC}}})"


def _of_shares(metric: str) -> str:
    return f"max by (group, partition) ({metric}{{{_TOPIC}}})"


TOPIC = Board(
    uid="kappa-topic",
    title="Kappa / Topic",
    description="One topic: records written, and the lag of each consumer group in records, in seconds, and until loss.",
    variables=(
        Variable("cluster_name", "kafka_partition_latest_offset", "cluster_name"),
        Variable("topic", "kafka_partition_latest_offset", "topic", 'cluster_name="$cluster_name"'),
    ),
    rows=(
        Row(
            "Topic",
            (
                Panel("Records written", "Records written to the topic a second.", (Query(f"cluster_name_topic:kappa_topic_written_records:rate{{{_TOPIC}}}", "{{topic}}"),), unit="cps"),
                Panel("Records read", "Records that each group moves on by a second.", (Query(f"cluster_name_group_topic:kafka_consumergroup_group_offset:rate{{{_TOPIC}}}", "{{group}}"),), unit="cps"),
                Panel("Records held", "Offsets between the start and the end of each partition.", (Query(f"{_of_partitions('kafka_partition_latest_offset')} - {_of_partitions('kafka_partition_earliest_offset')}", "{{partition}}"),)),
                Panel("Written by partition", "Records written a second; partitions that differ much make for one that is behind.", (Query(f"max by (partition) (rate(kafka_partition_latest_offset{{{_TOPIC}}}[<<rate>>]))", "{{partition}}"),), unit="cps"),
            ),
        ),
        Row(
            "Lag",
            (
                Panel("Seconds behind", "Age of the oldest record that a group has still to read: its worst partition.", (Query(f"max by (group) (kafka_consumergroup_group_lag_seconds{{{_TOPIC}}})", "{{group}}"),), unit="s", limit="lag.warning.seconds"),
                Panel("Records waiting", "Records that a group has still to read.", (Query(f"sum by (group) ({_of_shares('kafka_consumergroup_group_lag')})", "{{group}}"),)),
                Panel("By partition", "The partitions in which a group is furthest behind.", (Query(f"topk(10, {_of_shares('kafka_consumergroup_group_lag_seconds')})", "{{group}} {{partition}}"),), unit="s"),
                Panel("Until loss", "Seconds until records that a group has not read may be removed.", (Query(f"min by (group) (kappa_consumergroup_time_to_loss_seconds{{{_TOPIC}}})", "{{group}}"),), unit="s"),
                Panel("Lost", "Offsets that were removed before a group came to them.", (Query(f"sum by (group) ({_of_shares('kappa_consumergroup_lost_records')})", "{{group}}"),)),
            ),
        ),
        Row(
            "All of the cluster",
            (
                Panel("Groups furthest behind", "The largest lag in seconds of each group on the cluster.", (Query('topk(10, max by (group) (kafka_consumergroup_group_max_lag_seconds{cluster_name="$cluster_name"}))', "{{group}}"),), unit="s", limit="lag.warning.seconds"),
                Panel("Largest lag in records", "Records of the worst partition of each group on the cluster.", (Query('topk(10, max by (group) (kafka_consumergroup_group_max_lag{cluster_name="$cluster_name"}))', "{{group}}"),)),
                Panel("All records waiting", "Records that each group has still to read, over all topics.", (Query('topk(10, cluster_name_group:kafka_consumergroup_group_lag:sum{cluster_name="$cluster_name"})', "{{group}}"),)),
                Panel("Busiest topics", "Records written a second to each topic of the cluster.", (Query('topk(10, cluster_name_topic:kappa_topic_written_records:rate{cluster_name="$cluster_name"})', "{{topic}}"),), unit="cps"),
                Panel("Sweeps", "How long the last sweep of all groups took, and how long ago it was.", (Query('max(kappa_lag_sweep_seconds{cluster_name="$cluster_name"})', "took"), Query('max(kappa_lag_sweep_age_seconds{cluster_name="$cluster_name"})', "ago")), unit="s", limit="lag.sweepOld.seconds"),
                Panel("Seen", "Groups that were sampled, and what is not known or not told.", (Query('max(kappa_lag_groups{cluster_name="$cluster_name"})', "groups"), Query('max(kappa_lag_unread_groups{cluster_name="$cluster_name"})', "groups not read"), Query('max(kappa_lag_unknown_shares{cluster_name="$cluster_name"})', "shares unknown"), Query('max(kappa_lag_left_out_series{cluster_name="$cluster_name"})', "series left out")), kind="value"),
            ),
        ),
    ),
)  # fmt: skip
