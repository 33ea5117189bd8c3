"""All access to Kafka's administration: clients by KafkaCluster, batched calls, configs, quotas."""
