"""One topic: records written to it, and the lag of its consumer groups. The names are those of kafka-lag-exporter, so its dashboards work too."""

from kappa_monitoring.boards.model import Board, Panel, Query, Row, Variable

_TOPIC = 'cluster_name="$cluster_name", topic="$topic"'


def _of_partitions(metric: str) -> str:
    return f"max by (partition) ({metric}{{{_TOPIC}}})"


def _of_shares(metric: str) -> str:
    return f"max by (group, partition) ({metric}{{{_TOPIC}}})"


TOPIC = Board(
    uid="kappa-topic",
    title="Kappa / Topic",
    description="One topic: records written, and the lag of each consumer group in records, in seconds, and as time to loss.",
    variables=(
        Variable("cluster_name", "kafka_partition_latest_offset", "cluster_name"),
        Variable("topic", "kafka_partition_latest_offset", "topic", 'cluster_name="$cluster_name"'),
    ),
    rows=(
        Row(
            "Topic",
            (
                Panel("Records written", "Records written to the topic per second.", (Query(f"cluster_name_topic:kappa_topic_written_records:rate{{{_TOPIC}}}", "{{topic}}"),), unit="cps"),
                Panel("Records read", "Records per second that each group reads.", (Query(f"cluster_name_group_topic:kafka_consumergroup_group_offset:rate{{{_TOPIC}}}", "{{group}}"),), unit="cps"),
                Panel("Records in the log", "Offsets between the start and the end of each partition.", (Query(f"{_of_partitions('kafka_partition_latest_offset')} - {_of_partitions('kafka_partition_earliest_offset')}", "{{partition}}"),)),
                Panel("Written by partition", "Records written per second. Very different rates lead to lag in one partition.", (Query(f"max by (partition) (rate(kafka_partition_latest_offset{{{_TOPIC}}}[<<rate>>]))", "{{partition}}"),), unit="cps"),
            ),
        ),
        Row(
            "Lag",
            (
                Panel("Lag in seconds", "Age of the oldest unread record of a group, in its worst partition.", (Query(f"max by (group) (kafka_consumergroup_group_lag_seconds{{{_TOPIC}}})", "{{group}}"),), unit="s", limit="lag.warning.seconds"),
                Panel("Lag in records", "Unread records of a group.", (Query(f"sum by (group) ({_of_shares('kafka_consumergroup_group_lag')})", "{{group}}"),)),
                Panel("Lag by partition", "The partitions with the largest lag of a group.", (Query(f"topk(10, {_of_shares('kafka_consumergroup_group_lag_seconds')})", "{{group}} {{partition}}"),), unit="s"),
                Panel("Time to loss", "Seconds until retention may remove unread records of a group.", (Query(f"min by (group) (kappa_consumergroup_time_to_loss_seconds{{{_TOPIC}}})", "{{group}}"),), unit="s"),
                Panel("Lost records", "Offsets that were removed before a group read them.", (Query(f"sum by (group) ({_of_shares('kappa_consumergroup_lost_records')})", "{{group}}"),)),
            ),
        ),
        Row(
            "Archives",
            (
                Panel("Age of archives", "How long ago all records of a topic were archived.", (Query("time() - max by (namespace, topic) (kappa_archive_complete_timestamp_seconds)", "{{namespace}}/{{topic}}"),), unit="s"),
                Panel("Not archived", "Offsets that the last run of an archive left.", (Query("max by (namespace, topic) (kappa_archive_behind_records)", "{{namespace}}/{{topic}}"),)),
                Panel("Size of archives", "Bytes of the files of each archive.", (Query("max by (namespace, topic) (kappa_archive_size_bytes)", "{{namespace}}/{{topic}}"),), unit="bytes"),
                Panel("Archives with lost records", "Topics whose records were removed before they were archived.", (Query("max by (namespace, topic) (kappa_archive_lost) == 1", "{{namespace}}/{{topic}}"),), kind="value"),
            ),
        ),
        Row(
            "Cluster",
            (
                Panel("Groups with the largest lag", "The largest lag in seconds of each group on the cluster.", (Query('topk(10, max by (group) (kafka_consumergroup_group_max_lag_seconds{cluster_name="$cluster_name"}))', "{{group}}"),), unit="s", limit="lag.warning.seconds"),
                Panel("Largest lag in records", "Records of the worst partition of each group on the cluster.", (Query('topk(10, max by (group) (kafka_consumergroup_group_max_lag{cluster_name="$cluster_name"}))', "{{group}}"),)),
                Panel("Total lag in records", "Unread records of each group, over all topics.", (Query('topk(10, cluster_name_group:kafka_consumergroup_group_lag:sum{cluster_name="$cluster_name"})', "{{group}}"),)),
                Panel("Busiest topics", "Records written per second to each topic of the cluster.", (Query('topk(10, cluster_name_topic:kappa_topic_written_records:rate{cluster_name="$cluster_name"})', "{{topic}}"),), unit="cps"),
                Panel("Lag samples", "Duration and age of the last lag sample of all groups.", (Query('max(kappa_lag_sample_seconds{cluster_name="$cluster_name"})', "duration"), Query('max(kappa_lag_sample_age_seconds{cluster_name="$cluster_name"})', "age")), unit="s", limit="lag.sampleOld.seconds"),
                Panel("Coverage", "Sampled groups, and what is unknown or not exported.", (Query('max(kappa_lag_groups{cluster_name="$cluster_name"})', "groups"), Query('max(kappa_lag_unread_groups{cluster_name="$cluster_name"})', "groups not read"), Query('max(kappa_lag_unknown_partitions{cluster_name="$cluster_name"})', "group partitions unknown"), Query('max(kappa_lag_left_out_series{cluster_name="$cluster_name"})', "series left out")), kind="value"),
            ),
        ),
    ),
)  # fmt: skip
