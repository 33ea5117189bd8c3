"""Every reason that a condition or an Event of the platform can carry, in one enum.

A reason is part of the interface: scripts and alerts compare it. It is added here, with what it means and what to do,
and never spelled elsewhere. `docs/reference/reasons.md` is generated from this list.
"""

from enum import StrEnum

ANY = "Every kind"
REFERENCE = "What a resource refers to"
CLUSTER = "KafkaCluster"
TOPIC = "Topic"
STORE = "StateStore"
WAITS = "Pipeline: what it waits for"
DOES = "Pipeline: what it does"
FAILED = "Pipeline: why a driver failed"
SAVEPOINT = "Savepoint"
LAG = "LagPolicy"


class Reason(StrEnum):
    """Why a condition is as it is: the word for programs, the group it belongs to, and what it means for
    people."""

    group: str
    description: str

    def __new__(cls, word: str, group: str = "", description: str = "") -> "Reason":
        """Make the member equal to its word; group and description are only beside it, so `Reason(word)`
        finds it."""
        member = str.__new__(cls, word)
        member._value_ = word
        member.group = group
        member.description = description
        return member

    @classmethod
    def parse(cls, word: str) -> "Reason | None":
        """Return the reason that is spelled so; None for a word that only another version knows."""
        return next((reason for reason in cls if reason.value == word), None)

    # One reason a line, so that the list can be read and searched.
    # fmt: off
    RECONCILED = "Reconciled", ANY, "Everything matches the spec; there is nothing to do."
    RECONCILING = "Reconciling", ANY, "The operator is working on it; wait, the message names what for."
    INVALID_SPEC = "InvalidSpec", ANY, "The spec is invalid; change the field that the message names."
    STATUS_UNREADABLE = "StatusUnreadable", ANY, "Another version of the operator wrote a status that this one cannot read. Nothing is changed, neither the status nor what it describes; run an operator of that version or a newer one."
    INTERNAL_ERROR = "InternalError", ANY, "Unexpected internal error. It is retried; if it stays, report it with the log of the operator or driver."
    NAME_TAKEN = "NameTaken", ANY, "An object of the name that the operator needs belongs to another owner, and is neither changed nor used. Delete or rename it, or give the resource another name; it is retried."
    DELETION_BLOCKED = "DeletionBlocked", ANY, "The resource was deleted, but something has to end first or cannot be cleaned up; follow the message."
    RETAINED = "Retained", ANY, "The resource was deleted and the data stays, because of `spec.deletionPolicy`; remove the data yourself if it is not needed."
    DELETED = "Deleted", ANY, "The data was deleted with the resource, because of `spec.deletionPolicy`; there is nothing to do."
    SUSPENDED = "Suspended", ANY, "`spec.suspend` is set. A Topic in Kafka is not changed; a pipeline has stopped after a committed batch. Set it to false to continue."

    CLUSTER_NOT_FOUND = "ClusterNotFound", REFERENCE, "There is no such KafkaCluster in the namespace; create it or correct `spec.clusterRef`."
    CLUSTER_AMBIGUOUS = "ClusterAmbiguous", REFERENCE, "The namespace has several KafkaClusters; name one in `spec.clusterRef`."
    CLUSTER_NOT_READY = "ClusterNotReady", REFERENCE, "The KafkaCluster is not connected; check its conditions. The resource continues automatically afterwards."
    SECRET_NOT_FOUND = "SecretNotFound", REFERENCE, "The Secret that the message names is not in the namespace; create it or correct the reference."
    SECRET_INCOMPLETE = "SecretIncomplete", REFERENCE, "The Secret lacks a key, or its value cannot be used; the message names the key to add."

    CONNECTED = "Connected", CLUSTER, "The cluster is connected; there is nothing to do."
    BROKER_UNREACHABLE = "BrokerUnreachable", CLUSTER, "No broker answers; check `spec.bootstrapServers`, the brokers, their advertised listeners and network policies."
    AUTHENTICATION_FAILED = "AuthenticationFailed", CLUSTER, "Kafka refuses the log-in; check `spec.sasl` and the user name and password in its Secret."
    AUTHORIZATION_FAILED = "AuthorizationFailed", CLUSTER, "Kafka knows the user but does not let it do this; grant what the message names."
    TLS_FAILED = "TlsFailed", CLUSTER, "No secure connection could be made; check `spec.tls`, the authorities in its Secret and the names in the brokers' certificates."
    KAFKA_ERROR = "KafkaError", CLUSTER, "Kafka answered with an error; the message quotes it, and the logs of the brokers have details."

    SYNCED = "Synced", TOPIC, "The topic in Kafka matches the spec; there is nothing to do."
    ADOPTED = "Adopted", TOPIC, "The topic was in Kafka already and is managed from now on; check that the spec is what you want for it."
    ALTERED = "Altered", TOPIC, "The topic in Kafka was changed to match the spec; there is nothing to do."
    DRIFT_REPAIRED = "DriftRepaired", TOPIC, "The topic was changed without its manifest, and the change was reverted; make changes in the spec."
    TOPIC_CONFLICT = "TopicConflict", TOPIC, "Two Topic resources have one topic in Kafka; delete one of them (with deletionPolicy Retain, the data stays)."
    PARTITIONS_CANNOT_SHRINK = "PartitionsCannotShrink", TOPIC, "Kafka cannot remove partitions; raise `spec.partitions` to what the topic has, or make a new topic."
    REPLICATION_CANNOT_CHANGE = "ReplicationCannotChange", TOPIC, "The operator does not move replicas; leave `spec.replication` out, or reassign the partitions with Kafka's own tools."
    CLEANUP_CHANGE_UNSAFE = "CleanupChangeUnsafe", TOPIC, "The new `spec.cleanup` would drop records kept so far; undo it, or allow it with `spec.allowCleanupChange`."
    CONFIG_REFUSED = "ConfigRefused", TOPIC, "Kafka refuses a value in `spec.config`; correct the key that the message names."
    TOPIC_RECREATED = "TopicRecreated", TOPIC, "The topic was deleted from outside and created again, without its records; reprocess the data derived from it."

    STORE_VERIFIED = "StoreVerified", STORE, "Data was written and read back; there is nothing to do."
    STORE_PROVISIONING = "StoreProvisioning", STORE, "The PVC is being created or the first check runs; if it lasts, check the Events of the PVC and its storage class."
    STORE_CHECK_FAILED = "StoreCheckFailed", STORE, "Writing or reading back failed; the message has the cause. Pipelines with this store are at risk until it works."
    STORE_FULL = "StoreFull", STORE, "There is no space left; raise `spec.pvc.size`, or free space."
    STORE_SIZE_REFUSED = "StoreSizeRefused", STORE, "The PVC cannot have the size in `spec.pvc.size`; a PVC only grows, and only if its storage class allows it."
    PVC_NOT_FOUND = "PvcNotFound", STORE, "The PersistentVolumeClaim does not exist; create it, correct `spec.pvc.claimName`, or set `spec.pvc.size` to create one."
    BUCKET_NOT_FOUND = "BucketNotFound", STORE, "There is no such bucket, or these credentials do not see it; create it or correct `spec.s3`."
    STORE_COLLECTED = "StoreCollected", STORE, "Unused files were removed according to `spec.collection`; the message has the amount."
    IN_USE = "InUse", STORE, "Pipelines still use the store, or it holds Savepoints, so its data is not deleted; delete those that the message names first, or set `spec.deletionPolicy` to Retain."

    STATE_STORE_NOT_FOUND = "StateStoreNotFound", WAITS, "There is no such StateStore in the namespace; create it or correct `spec.stateStoreRef`."
    STATE_STORE_AMBIGUOUS = "StateStoreAmbiguous", WAITS, "The namespace has several StateStores; name one in `spec.stateStoreRef`."
    STATE_STORE_NOT_READY = "StateStoreNotReady", WAITS, "The StateStore was not verified, or cannot hold this pipeline's state; check its conditions."
    TOPIC_NOT_FOUND = "TopicNotFound", WAITS, "The topic is neither a Topic resource in the namespace nor a topic in Kafka; create a Topic or correct its name."
    TOPIC_NOT_READY = "TopicNotReady", WAITS, "The Topic is not synced; check its conditions. The resource continues automatically afterwards."
    PYTHON_MODULES_NOT_FOUND = "PythonModulesNotFound", WAITS, "The ConfigMap in `spec.pythonFrom` is not in the namespace; create it or correct the reference."
    PYTHON_MODULES_INVALID = "PythonModulesInvalid", WAITS, "The ConfigMap in `spec.pythonFrom` cannot be used as Python modules; correct the key that the message names."
    STOPPING_PREVIOUS = "StoppingPrevious", WAITS, "The previous driver has to end first, so that two never write; wait, or if its node is lost, delete the pod with --force."
    HANDING_OVER = "HandingOver", WAITS, "The new driver is on standby and takes over when the previous driver has finished its batch; wait."
    DRIVER_SCHEDULING = "DriverScheduling", WAITS, "The driver pod has no node or container yet; if it lasts, check the Events of the pod."
    DRIVER_UNSCHEDULABLE = "DriverUnschedulable", WAITS, "No node takes the driver, or the API server refuses it; lower `spec.resources.driver`, add nodes, or raise the quota that the message names."
    IMAGE_UNAVAILABLE = "ImageUnavailable", WAITS, "The image cannot be pulled; correct `spec.image`, or give the nodes access to its registry."
    DRIVER_STARTING = "DriverStarting", WAITS, "The driver loads the pipeline; wait."
    WAITING_FOR_EXECUTORS = "WaitingForExecutors", WAITS, "Executors are missing; if it lasts, check the Events of their pods, or lower `spec.resources.executors`."
    BACKING_OFF = "BackingOff", WAITS, "The driver failed and restarts after a back-off; the message has the cause, and `spec.restart` configures the back-off."

    RUNNING = "Running", DOES, "The pipeline processes records; there is nothing to do."
    NO_PROGRESS = "NoProgress", DOES, "The pipeline has lag and has committed no batch since the time in the message: the brokers, the sink or the state store may not respond, or a batch takes much longer than the one before; check the KafkaCluster and the driver's log."
    UPGRADE_WAITING = "UpgradeWaiting", DOES, "`operator.concurrentChanges` pipelines, the limit of the chart, are being changed; the active driver continues until a slot is free."
    UPGRADE_DRY_RUN = "UpgradeDryRun", DOES, "A driver with the changed spec makes a dry run on a copy of the last batch; the active driver continues meanwhile."
    UPGRADE_SAVING = "UpgradeSaving", DOES, "A savepoint is taken before the change, because of `spec.upgrade.mode`; the active driver continues meanwhile."
    UPGRADE_NEW_CHECKPOINT = "UpgradeNewCheckpoint", DOES, "The changed spec does not continue from the existing state; the message names where it starts and what is written again. The previous checkpoint stays."
    UPGRADE_REFUSED = "UpgradeRefused", DOES, "The changed spec does not fit the state, or cannot start; the active driver continues. Follow the message, or revert the change."
    ROLLED_BACK = "RolledBack", DOES, "The changed spec ran and failed, so the previous revision has taken over again; correct the spec according to the message."
    DRIVER_STOPPED = "DriverStopped", DOES, "The driver ended after a stop request; there is nothing to do."

    DRIVER_CRASHED = "DriverCrashed", FAILED, "The driver exited without a reason; it restarts automatically, and the log of the pod has details."
    DRIVER_OUT_OF_MEMORY = "DriverOutOfMemory", FAILED, "The driver used more memory than its limit; raise `spec.resources.driver.memory`."
    DRIVER_LOST = "DriverLost", FAILED, "The driver pod was deleted, evicted, or lost with its node; it restarts automatically."
    DRIVER_UNRESPONSIVE = "DriverUnresponsive", FAILED, "The driver runs but does not answer on its control port; check its log, its memory, and network policies."
    GENERATION_FENCED = "GenerationFenced", FAILED, "A newer driver has taken over the checkpoint and this one stopped itself; nothing was lost, and there is nothing to do."
    INVALID_SCHEMA = "InvalidSchema", FAILED, "A source's schema or event time cannot be used; correct what the message names in `spec.sources`."
    INVALID_SQL = "InvalidSql", FAILED, "A view's SQL cannot be read; correct it at the place that the message names."
    UNKNOWN_COLUMN = "UnknownColumn", FAILED, "A view, a key or an event time names a column that is not there; the message names those that are."
    UNKNOWN_VIEW = "UnknownView", FAILED, "A view reads from a name that is neither a source nor a view; correct the name."
    VIEW_CYCLE = "ViewCycle", FAILED, "Views read each other in a circle, or one reads itself; take out one of the references that the message lists."
    UNSUPPORTED_QUERY = "UnsupportedQuery", FAILED, "The query cannot run as a stream, or not in the mode of its sink; change the view or the mode according to the message."
    PYTHON_VIEW_FAILED = "PythonViewFailed", FAILED, "The function of a view is neither in the image nor in spec.pythonFrom, failed when it was called, or returned no DataFrame; correct it according to the message."
    UNBOUNDED_STATE = "UnboundedState", FAILED, "A view has unbounded state; bound it according to the message, or accept it with allowUnboundedState if all of it fits."
    STATE_INCOMPATIBLE = "StateIncompatible", FAILED, "The state of the checkpoint does not fit the changed views; go back to the old views, or process the topics again into a new pipeline."
    OFFSETS_LOST = "OffsetsLost", FAILED, "Records that the checkpoint still needs are gone from the topic; give it longer retention, and process what is left into a new pipeline."
    SOURCE_TOPIC_DELETED = "SourceTopicDeleted", FAILED, "A topic does not exist any more; create it, or take it out of the spec."
    PARTITIONS_ADDED = "PartitionsAdded", FAILED, "A topic got more partitions than real-time mode has tasks for; the driver restarts automatically and reads them all."
    CHECKPOINT_UNAVAILABLE = "CheckpointUnavailable", FAILED, "The checkpoint cannot be read or written; check the StateStore. The driver restarts automatically."
    REGISTRY_UNAVAILABLE = "RegistryUnavailable", FAILED, "The schema registry of a source does not answer or refuses the driver; check its url and its Secrets in `spec.sources`. The driver restarts automatically."
    SCHEMA_NOT_FOUND = "SchemaNotFound", FAILED, "The schema registry has no such subject or version; correct `subject` or `version` of the source, or register the schema. The driver restarts automatically."
    SCHEMA_ADDED = "SchemaAdded", FAILED, "Records have a schema that was unknown when the driver started; it restarts automatically and requests it from the registry, so there is nothing to do."
    KAFKA_UNAVAILABLE = "KafkaUnavailable", FAILED, "Kafka does not answer the driver; check the KafkaCluster and the brokers. The driver restarts automatically."
    QUERY_FAILED = "QueryFailed", FAILED, "The query failed while it ran; the message quotes the error, and the log of the driver has details."
    CHECKPOINT_DAMAGED = "CheckpointDamaged", FAILED, "A file of the checkpoint is missing or was changed; the message names it. Restore a savepoint."
    CHECKPOINT_IN_USE = "CheckpointInUse", FAILED, "A savepoint was to be restored where a checkpoint is already; report it with the driver's log."

    SAVEPOINT_READY = "SavepointReady", SAVEPOINT, "The savepoint was taken; there is nothing to do."
    SAVEPOINT_TAKING = "SavepointTaking", SAVEPOINT, "The driver or a pod copies the files of the savepoint; wait, the message shows the progress."
    SAVEPOINT_FAILED = "SavepointFailed", SAVEPOINT, "An attempt to take the savepoint failed; the message has the cause. It is retried."
    SAVEPOINT_ABANDONED = "SavepointAbandoned", SAVEPOINT, "Every attempt to take the savepoint failed; fix the cause in the message, and create a new Savepoint."
    PIPELINE_NOT_FOUND = "PipelineNotFound", SAVEPOINT, "There is no such Pipeline in the namespace; create it or correct `spec.pipelineRef`."
    PIPELINE_NOT_RUNNING = "PipelineNotRunning", SAVEPOINT, "The Pipeline is starting, or has never run; its savepoint is taken once there is a batch."
    SAVEPOINT_VERIFIED = "SavepointVerified", SAVEPOINT, "The savepoint was read back whole; there is nothing to do."
    SAVEPOINT_VERIFYING = "SavepointVerifying", SAVEPOINT, "The savepoint is being read back; wait."
    SAVEPOINT_WORK_FAILED = "SavepointWorkFailed", SAVEPOINT, "A pod for the savepoint exited without a result, or could not be created; the message has details. It is retried."
    SAVEPOINT_IN_USE = "SavepointInUse", SAVEPOINT, "The savepoint is deleted, but a Pipeline is still to be restored from it; wait for that, or remove it from `spec.restore`."
    SAVEPOINT_DELETING = "SavepointDeleting", SAVEPOINT, "The savepoint's files are deleted; wait."
    RESTORING = "Restoring", SAVEPOINT, "The pipeline is restored from a savepoint, into a new checkpoint; there is nothing to do."
    SAVEPOINT_NOT_READY = "SavepointNotReady", SAVEPOINT, "The Savepoint that `spec.restore` names is not there or was not taken yet; until it is, the pipeline stays as it is."
    SAVEPOINT_NOT_FOUND = "SavepointNotFound", SAVEPOINT, "There is no such savepoint in the store; the message names those that there are."
    SAVEPOINT_DAMAGED = "SavepointDamaged", SAVEPOINT, "A file of the savepoint is missing or was changed since it was taken; the message names it. Use another savepoint."
    SAVEPOINT_EXPORTED = "SavepointExported", SAVEPOINT, "Every copy that `spec.exports` asks for is in its StateStore; there is nothing to do."
    SAVEPOINT_EXPORTING = "SavepointExporting", SAVEPOINT, "The savepoint is copied to another StateStore; wait."
    EXPORT_FAILED = "ExportFailed", SAVEPOINT, "An attempt to copy the savepoint to another StateStore failed; the message has the cause. It is retried."
    EXPORT_ABANDONED = "ExportAbandoned", SAVEPOINT, "Every attempt to copy the savepoint to another StateStore failed; fix the cause in the message, and change `request` of that export."
    IMPORT_REFUSED = "ImportRefused", SAVEPOINT, "The savepoint is of another namespace, and the StateStore does not allow its import; add that namespace to its `spec.importNamespaces`."
    SAVEPOINT_IN_OTHER_STORE = "SavepointInOtherStore", SAVEPOINT, "The Savepoint in `spec.restore` is in another StateStore than the state of the pipeline; import it according to the message."
    SAVEPOINT_UNSTABLE = "SavepointUnstable", SAVEPOINT, "A copied file had other content when it was read again; check the store. It is retried."

    LAG_EVALUATED = "LagEvaluated", LAG, "The groups that the policy selects are evaluated; the condition LagHealthy has the result."
    LAG_WITHIN_BOUNDS = "LagWithinBounds", LAG, "All groups that the policy selects keep its bounds; there is nothing to do."
    LAG_OVER_BOUND = "LagOverBound", LAG, "A group has been further behind than a bound for longer than `for`; give it more room, or wait if it catches up."
    CONSUMER_REWOUND = "ConsumerRewound", LAG, "The committed offset of a group went back, so records are processed again; there is nothing to do if it was meant."
    CONSUMER_STALLED = "ConsumerStalled", LAG, "Records wait in a partition that a group does not move in, while it moves elsewhere; check for a record that it cannot process."
    CONSUMER_STOPPED = "ConsumerStopped", LAG, "Records wait and nothing of the group moves; start it."
    LOSING_RECORDS = "LosingRecords", LAG, "Retention has removed records before the group came to them, or is about to; extend the retention, or speed the group up."
    LAG_UNKNOWN = "LagUnknown", LAG, "No sample of Kafka was sufficient to determine the lag of a group; check the KafkaCluster, the name of the group, and its committed offsets."
    NO_GROUP_SELECTED = "NoGroupSelected", LAG, "No group that Kafka knows is selected; correct `spec.selector`, or start the consumer."
    PIPELINE_SCALED = "PipelineScaled", LAG, "A LagPolicy changed the number of a pipeline's executors, as `spec.remediation.scale` allows; there is nothing to do."
    BATCH_LIMIT_CHANGED = "BatchLimitChanged", LAG, "A LagPolicy changed how many records a pipeline's batches take, as `spec.remediation.raiseBatchLimit` allows; there is nothing to do."
    PIPELINE_RESTARTED = "PipelineRestarted", LAG, "A LagPolicy restarted a pipeline that made no progress, as `spec.remediation.restartStalled` allows; if it comes again, check for a record that cannot be processed."
    RETENTION_HELD = "RetentionHeld", LAG, "A LagPolicy extended the retention of a topic for a time, as `spec.remediation.holdRetention` allows; speed its readers up meanwhile."
    RETENTION_RESTORED = "RetentionRestored", LAG, "The held records of a topic were read, and its retention is that of its spec again; there is nothing to do."
    PRODUCER_THROTTLED = "ProducerThrottled", LAG, "A LagPolicy gave a producer a quota in Kafka, as `spec.remediation.throttleProducers` allows; it is removed when everything is healthy again."
    PRODUCER_RELEASED = "ProducerReleased", LAG, "A producer has its previous quota in Kafka again; there is nothing to do."
    WEBHOOK_DELIVERED = "WebhookDelivered", LAG, "A change of severity was delivered to the webhook of a LagPolicy; there is nothing to do."
    WEBHOOK_FAILED = "WebhookFailed", LAG, "A notification could not be delivered to the webhook of a LagPolicy; the message has the cause. Correct `spec.remediation.webhook`, its Secret, the server, or the allowed hosts of the operator."
    ALERT_RECEIVED = "AlertReceived", LAG, "Alertmanager sent an alert, and `spec.remediation.onAlerts` of a LagPolicy lets its remediations act on it, within their bounds; check the alert."
    REMEDIATION_SAVING = "RemediationSaving", LAG, "A savepoint is taken before a LagPolicy replaces the driver of a pipeline, because of `spec.remediation.savepoint`; wait."
    REMEDIATION_WITHDRAWN = "RemediationWithdrawn", LAG, "A remediation of a LagPolicy was no longer needed; there is nothing to do."
    REMEDIATION_REFUSED = "RemediationRefused", LAG, "A remediation of a LagPolicy could not be applied; the message has the cause. It is retried after its `coolDown`."
    POLICIES_CONSISTENT = "PoliciesConsistent", LAG, "No other LagPolicy differs for the same groups; there is nothing to do."
    POLICIES_CONFLICT = "PoliciesConflict", LAG, "Another LagPolicy selects the same groups and conflicts with this one; change one of the two according to the message. Both are evaluated."
    # fmt: on
