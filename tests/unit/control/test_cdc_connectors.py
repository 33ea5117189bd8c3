"""The configuration of connectors: what a manifest means for Debezium, and what no manifest can bring into it."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kappa_crds.cdcsource import CDC_SOURCE, TUNING, CDCSourceSpec
from kappa_operator.cdc.connector.common import Source, check_values
from kappa_operator.cdc.connector.expressions import list_tables, to_expression
from kappa_operator.cdc.connector.mysql import MARIADB_CLASS, MYSQL_CLASS, SchemaHistory, build_mysql
from kappa_operator.cdc.connector.postgresql import build_postgresql

DATABASE: dict[str, Any] = {
    "host": "db.example",
    "database": "shop",
    "credentialsSecretRef": {"name": "login"},
}
SERVER: dict[str, Any] = {
    "host": "db.example",
    "serverId": 4711,
    "credentialsSecretRef": {"name": "login"},
}
HISTORY = SchemaHistory(
    "connect.team.main.shop.schemas", ("kafka:9092", "kafka:9093"), {"security.protocol": "SSL"}
)


def parse(**fields: Any) -> CDCSourceSpec:
    spec = {"tables": {"include": ["orders"]}, **fields}
    parsed: CDCSourceSpec = CDC_SOURCE.parse({"metadata": {"name": "it"}, "spec": spec}).spec
    return parsed


def render(owns: bool = True, **fields: Any) -> dict[str, str]:
    database = {**DATABASE, **fields.pop("postgresql", {})}
    spec = parse(postgresql=database, **fields)
    assert spec.postgresql is not None
    return build_postgresql(
        Source("team", "shop-db", "uid-1", spec, "v1"), spec.postgresql, owns_publication=owns
    )


def test_a_database_of_postgresql_becomes_its_connector() -> None:
    config = render()
    assert config["connector.class"] == "io.debezium.connector.postgresql.PostgresConnector"
    assert (config["database.hostname"], config["database.port"], config["database.dbname"]) == (
        "db.example", "5432", "shop",
    )  # fmt: skip
    assert (config["topic.prefix"], config["table.include.list"]) == ("shop-db", r"public\.orders")
    assert (config["snapshot.mode"], config["heartbeat.interval.ms"]) == ("initial", "10000")
    assert (config["plugin.name"], config["slot.drop.on.stop"]) == ("pgoutput", "false")
    assert (config["exactly.once.support"], config["tasks.max"]) == ("required", "1")
    assert config["kappa.uid"] == "uid-1"


def test_the_log_in_is_named_and_never_written() -> None:
    config = render()
    assert config["database.user"] == "${sources:/etc/kappa/sources:shop-db.username}"
    assert config["database.password"] == "${sources:/etc/kappa/sources:shop-db.password}"


def test_slot_and_publication_have_one_name_for_each_source() -> None:
    config = render()
    assert re.fullmatch(r"kappa_shop_db_[0-9a-f]{8}", config["slot.name"])
    assert config["publication.name"] == config["slot.name"]
    spec = parse(postgresql=DATABASE)
    assert spec.postgresql is not None
    other = build_postgresql(
        Source("others", "shop-db", "uid-2", spec), spec.postgresql, owns_publication=True
    )
    assert other["slot.name"] != config["slot.name"]
    long = build_postgresql(Source("team", "a" * 100, "u", spec), spec.postgresql, owns_publication=True)
    assert len(long["slot.name"]) == 63
    named = render(postgresql={"slot": "mine", "publication": "theirs"})
    assert (named["slot.name"], named["publication.name"]) == ("mine", "theirs")


def test_a_publication_of_others_is_never_changed() -> None:
    assert render()["publication.autocreate.mode"] == "filtered"
    assert render(owns=False)["publication.autocreate.mode"] == "disabled"
    assert render(postgresql={"publication": "theirs"})["publication.autocreate.mode"] == "disabled"


def test_tls_verifies_certificate_and_name() -> None:
    assert render()["database.sslmode"] == "disable"
    config = render(postgresql={"tls": {"caSecretRef": {"name": "ca"}}})
    assert config["database.sslmode"] == "verify-full"
    assert config["database.sslrootcert"] == "/etc/kappa/sources/shop-db.ca.crt"


def test_records_are_json_without_schemas() -> None:
    config = render()
    for part in ("key", "value"):
        assert config[f"{part}.converter"] == "org.apache.kafka.connect.json.JsonConverter"
        assert config[f"{part}.converter.schemas.enable"] == "false"


@pytest.mark.parametrize(
    ("fields", "name", "value"),
    [
        ({"snapshot": {"mode": "Never"}}, "snapshot.mode", "no_data"),
        ({"snapshot": {"mode": "WhenNeeded"}}, "snapshot.mode", "when_needed"),
        ({"heartbeatInterval": "0s"}, "heartbeat.interval.ms", "0"),
        ({"decimals": "Text"}, "decimal.handling.mode", "string"),
        ({"tombstones": False}, "tombstones.on.delete", "false"),
        ({"transactions": True}, "provide.transaction.metadata", "true"),
        ({"delivery": "AtLeastOnce"}, "exactly.once.support", "requested"),
        ({"topicPrefix": "shop"}, "topic.prefix", "shop"),
        ({"topics": {"partitions": 4}}, "topic.creation.default.partitions", "4"),
        ({"topics": {"replication": 3}}, "topic.creation.default.replication.factor", "3"),
        ({"topics": {}}, "topic.creation.default.replication.factor", "-1"),
        ({"topics": {"cleanup": "delete"}}, "topic.creation.default.cleanup.policy", "delete"),
        ({"topics": {"cleanup": "delete"}}, "skipped.operations", "none"),
        ({"maxRecordSize": "16Mi"}, "topic.creation.default.max.message.bytes", "16777216"),
        ({"maxRecordSize": "16Mi"}, "producer.override.max.request.size", "16777216"),
        ({"maxRecordSize": "16Mi"}, "producer.override.buffer.memory", "33554432"),
        ({"maxRecordSize": "64Mi"}, "producer.override.buffer.memory", "67108864"),
        ({"maxRecordSize": "64Mi"}, "max.queue.size.in.bytes", "67108864"),
        ({"maxRecordSize": "64Mi", "config": {"max.queue.size.in.bytes": 5}}, "max.queue.size.in.bytes", "5"),
        ({"maxRecordSize": "2Mi", "outbox": {"table": "orders"}}, "topic.creation.outbox.max.message.bytes", "2097152"),
        ({"config": {"max.batch.size": 4096}}, "max.batch.size", "4096"),
        ({"tables": {"include": ["a", "s.b*"]}}, "table.include.list", r"public\.a,s\.b[^.]*"),
        ({"tables": {"include": ["*"], "exclude": ["log?"]}}, "table.include.list", r"(?!(?:public\.log[^.])$)public\.[^.]*"),
        ({"columns": {"exclude": ["a.b.c", "a.b.d*"]}}, "column.exclude.list", r"a\.b\.c,a\.b\.d[^.]*"),
        ({"columns": {"mask": [{"columns": ["a.b.c"], "length": 8}]}}, "column.mask.with.8.chars", r"a\.b\.c"),
        ({"columns": {"truncate": [{"columns": ["a.b.c"], "length": 9}]}}, "column.truncate.to.9.chars", r"a\.b\.c"),
        ({"columns": {"hash": [{"columns": ["a.b.c"], "salt": "saltsalt"}]}}, "column.mask.hash.v2.SHA-256.with.salt.saltsalt", r"a\.b\.c"),
        ({"keys": [{"table": "logs", "columns": ["at", "line"]}, {"table": "s.x", "columns": ["y"]}]}, "message.key.columns", r"public\.logs:at,line;s\.x:y"),
    ],
)  # fmt: skip
def test_a_field_becomes_a_property(fields: dict[str, Any], name: str, value: str) -> None:
    assert render(**fields)[name] == value


def test_truncations_are_written_only_where_topics_take_records_without_a_key() -> None:
    assert "skipped.operations" not in render()
    assert "skipped.operations" not in render(topics={"cleanup": "compact,delete"})
    assert "skipped.operations" not in render(topics={"cleanup": "delete"}, outbox={"table": "orders"})


def test_columns_of_one_length_share_a_property() -> None:
    masks = [{"columns": ["a.b.c"], "length": 8}, {"columns": ["a.b.d"], "length": 8}]
    assert render(columns={"mask": masks})["column.mask.with.8.chars"] == r"a\.b\.c,a\.b\.d"


@pytest.mark.parametrize(("kind", "name"), [("mysql", MYSQL_CLASS), ("mariadb", MARIADB_CLASS)])
def test_mysql_and_mariadb_have_an_id_and_a_history_of_schemas(kind: str, name: str) -> None:
    tls = {"tls": {"caSecretRef": {"name": "ca"}}}
    spec = parse(**{kind: {**SERVER, **tls}}, tables={"include": ["shop.orders", "shop.items", "cr?m.*"]})
    database = spec.database
    config = build_mysql(Source("team", "shop", "u", spec), database, HISTORY)  # type: ignore[arg-type]
    assert config["connector.class"] == name
    assert (config["database.server.id"], config["database.port"]) == ("4711", "3306")
    assert config["database.include.list"] == "shop,cr[^.]m"
    assert config["table.include.list"] == r"shop\.orders,shop\.items,cr[^.]m\.[^.]*"
    history = "schema.history.internal"
    assert config[f"{history}.kafka.topic"] == "connect.team.main.shop.schemas"
    assert config[f"{history}.consumer.group.id"] == "connect.team.main.shop.schemas"
    assert config[f"{history}.kafka.bootstrap.servers"] == "kafka:9092,kafka:9093"
    assert config[f"{history}.producer.security.protocol"] == "SSL"
    assert config["database.ssl.mode"].replace("_", "-") in ("verify-identity", "verify-full")
    assert config["database.ssl.truststore"] == "/etc/kappa/sources/shop.p12"


SIGNS = st.text(
    st.sampled_from("ab_.*?${}:/\\,;|()[]^+") | st.characters(codec="utf-8"), min_size=1, max_size=12
)


@given(SIGNS)
def test_no_pattern_escapes_into_the_list_or_names_a_secret(text: str) -> None:
    """The contract refuses most of these signs already; the expression is right for all of them."""
    expression = to_expression(text)
    assert "${" not in expression
    assert re.search(r"(?<!\\)[,;]", expression) is None
    plain = text.replace("*", "x").replace("?", "y")
    assert re.fullmatch(expression, plain, re.DOTALL)


def test_a_table_that_is_left_out_is_not_matched() -> None:
    expression = re.compile(list_tables(["shop.*"], ["shop.log*", "shop.se$cret"], "public"))
    names = ["shop.orders", "shop.logs", "shop.se$cret", "shop.se$cret2", "other.orders", "shop.a.b"]
    assert [name for name in names if expression.fullmatch(name)] == ["shop.orders", "shop.se$cret2"]


@pytest.mark.parametrize(
    "value",
    [
        "${sources:/etc/kappa/sources:other.password}",
        "x${sources:/etc/kappa/sources:shop.password}",
        "${env:KEY}",
        "a\nb",
    ],
)
def test_a_value_that_kafka_connect_would_replace_is_refused(value: str) -> None:
    source = Source("team", "shop", "u", parse(postgresql=DATABASE))
    with pytest.raises(ValueError, match="the value of"):
        check_values(source, {"topic.prefix": value})


def test_the_properties_of_a_manifest_are_numbers_for_tuning() -> None:
    """A class, a statement, a transformation or a file is none of them."""
    dangerous = ("class", "transforms", "statement", "query", "converter", "override", "file", "signal", "driver", "predicates", "url")  # fmt: skip
    assert [name for name in TUNING if any(part in name for part in dangerous)] == []
    with pytest.raises(ValueError, match=r"config\."):
        parse(postgresql=DATABASE, config={"max.batch.size": {"a": 1}})


def test_a_spec_has_no_property_that_it_did_not_name() -> None:
    known = set(render())
    assert {
        name for name in known if name.startswith(("transforms", "signal", "notification", "driver"))
    } == set()
    assert not {"database.initial.statements", "heartbeat.action.query"} & known


def test_an_outbox_is_routed_by_what_its_events_are_about() -> None:
    config = render(outbox={"table": "outbox"}, tables={"include": ["orders", "outbox"]})
    assert config["transforms.outbox.type"] == "io.debezium.transforms.outbox.EventRouter"
    assert config["transforms.outbox.route.topic.replacement"] == "shop-db.${routedByValue}"
    assert config["transforms.outbox.table.fields.additional.placement"] == "type:header:type"
    pattern = config[f"predicates.{config['transforms.outbox.predicate']}.pattern"]
    assert re.fullmatch(pattern, "shop-db.public.outbox")
    assert not re.fullmatch(pattern, "shop-db.public.orders")
    assert not re.fullmatch(pattern, "shop-dbxpublicxoutbox")


def test_an_outbox_that_is_not_captured_is_refused() -> None:
    with pytest.raises(ValueError, match=r"spec.tables.include has no outbox.*add it"):
        render(outbox={"table": "outbox"})


def test_topics_of_an_outbox_are_not_compacted() -> None:
    config = render(outbox={"table": "outbox"}, tables={"include": ["*"]})
    assert config["topic.creation.default.cleanup.policy"] == "compact"
    assert config["topic.creation.outbox.cleanup.policy"] == "delete"
    include = config["topic.creation.outbox.include"]
    assert re.fullmatch(include, "shop-db.order")
    assert not re.fullmatch(include, "shop-db.public.orders")


def test_the_topic_of_transactions_is_not_compacted_and_is_in_order() -> None:
    config = render(transactions=True, outbox={"table": "outbox"}, tables={"include": ["*"]})
    assert config["topic.creation.groups"] == "transactions,outbox", "that of events fits it as well"
    assert re.fullmatch(config["topic.creation.transactions.include"], "shop-db.transaction")
    assert not re.fullmatch(config["topic.creation.transactions.include"], "shop-db.public.transaction")
    assert config["topic.creation.transactions.cleanup.policy"] == "delete"
    assert config["topic.creation.transactions.partitions"] == "1"
    assert "topic.creation.outbox.include" not in render(transactions=True)


def test_columns_of_an_outbox_have_other_names_where_the_manifest_has_them() -> None:
    columns = {"id": "event", "destination": "about", "key": "subject", "type": "kind", "payload": "body"}
    config = render(outbox={"table": "Sales.outbox", "columns": columns}, tables={"include": ["Sales.*"]})
    router = {
        name.removeprefix("transforms.outbox."): value
        for name, value in config.items()
        if name.startswith("transforms.outbox.")
    }
    assert router["table.field.event.id"] == "event"
    assert (router["route.by.field"], router["table.field.event.key"]) == ("about", "subject")
    assert router["table.field.event.payload"] == "body"
    assert router["table.fields.additional.placement"] == "kind:header:type"


def test_without_an_outbox_nothing_is_transformed() -> None:
    assert not [
        name for name in render() if name.startswith(("transforms", "predicates", "topic.creation.groups"))
    ]
