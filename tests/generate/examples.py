"""One example of each kind, as documentation shows it; the tests give each to a real API server."""

KAFKA_CLUSTER = """\
apiVersion: kappa-platform.io/v1alpha1
kind: KafkaCluster
metadata: {name: main}
spec:
  bootstrapServers: [kafka.kafka.svc:9093]
  tls: {caSecretRef: {name: kafka-ca}}
  sasl: {mechanism: SCRAM-SHA-512, credentialsSecretRef: {name: kafka-user}}
"""

TOPIC = """\
apiVersion: kappa-platform.io/v1alpha1
kind: Topic
metadata: {name: flights}
spec:
  partitions: 4
  retention: {time: 30d}
  config: {min.insync.replicas: "2"}
"""

STATE_STORE = """\
apiVersion: kappa-platform.io/v1alpha1
kind: StateStore
metadata: {name: default}
spec:
  pvc: {size: 20Gi, accessMode: ReadWriteMany}
"""

PIPELINE = """\
apiVersion: kappa-platform.io/v1alpha1
kind: Pipeline
metadata: {name: delays}
spec:
  sources:
    - name: flights
      topic: flights
      format: {json: {schema: "carrier STRING, origin STRING, dep_delay DOUBLE, scheduled TIMESTAMP"}}
      eventTime: {column: scheduled, watermark: 10m}
  views:
    - name: hourly
      sql: |
        SELECT window(scheduled, '1 hour') AS hour, origin, count(*) AS departures, avg(dep_delay) AS mean_delay
        FROM flights GROUP BY 1, 2
  sinks:
    - {name: log, from: hourly, kafka: {topic: delays-hourly, key: [hour, origin]}}
  deadLetter: delays-dead
  resources: {executors: {count: 2, cpu: "1", memory: 2Gi}}
"""

SAVEPOINT = """\
apiVersion: kappa-platform.io/v1alpha1
kind: Savepoint
metadata: {name: before-the-change}
spec: {pipelineRef: delays}
"""

LAG_POLICY = """\
apiVersion: kappa-platform.io/v1alpha1
kind: LagPolicy
metadata: {name: business-hours}
spec:
  selector: {pipelines: {matchLabels: {tier: gold}}, groups: ["billing-*"]}
  warning: {lag: 60s, records: 10000, for: 2m}
  critical: {lag: 10m, timeToLoss: 6h, for: 1m}
  mute: [{start: "0 22 * * *", duration: 8h, timeZone: Europe/Berlin}]
"""

CDC_SOURCE = """\
apiVersion: kappa-platform.io/v1alpha1
kind: CDCSource
metadata: {name: shop}
spec:
  postgresql:
    host: db.example
    database: shop
    credentialsSecretRef: {name: shop-db}
    tls: {caSecretRef: {name: shop-db-ca}}
  tables: {include: ["public.*"], exclude: [public.audit_log]}
  columns:
    exclude: [public.customers.password]
    hash: [{columns: [public.customers.email], salt: change-this-text}]
"""

REPROCESSING = """\
# Created by the Pipeline when it changes with upgrade.mode Shadow; a person edits gates and requests.
apiVersion: kappa-platform.io/v1alpha1
kind: Reprocessing
metadata: {name: delays-1a2b3c4d5e}
spec:
  pipelineRef: delays
  gates: {cut: Manual}
  soak: 1h
  request: {action: Cut}
"""

EXAMPLES = {
    "KafkaCluster": KAFKA_CLUSTER,
    "Topic": TOPIC,
    "StateStore": STATE_STORE,
    "Pipeline": PIPELINE,
    "Savepoint": SAVEPOINT,
    "LagPolicy": LAG_POLICY,
    "CDCSource": CDC_SOURCE,
    "Reprocessing": REPROCESSING,
}
