#!/bin/bash
# What a container of the pipelines image runs: `driver [REVISION_FILE]`, `savepoint REQUEST_FILE`, `archive REQUEST_FILE`, or `executor` as Spark starts it.
#
# pyspark has Spark's jars but no entrypoint for executors. Spark describes an executor in its environment: the JVM's
# options as SPARK_JAVA_OPT_0, _1, … in order, the rest by name.
set -euo pipefail

# Java and Hadoop look up the name of the user, which the image need not know. /etc/passwd is a link to this file.
if ! getent passwd "$(id -u)" >/dev/null; then
    cat /opt/passwd > /tmp/passwd
    getent passwd "$(id -u)" >/dev/null || echo "kappa:x:$(id -u):$(id -g)::/tmp:/usr/sbin/nologin" >> /tmp/passwd
fi

# The network may refuse connections of a new pod for some seconds, until the NetworkPolicies apply to its address.
# Spark tries three times at once, and an executor that failed counts towards the failures that end the driver.
await_driver() {
    local address="${SPARK_DRIVER_URL##*@}" end=$((SECONDS + 30))
    local host="${address%:*}" port="${address##*:}"
    host="${host#[}" host="${host%]}"
    until (exec 3<> "/dev/tcp/${host}/${port}") 2>/dev/null; do
        ((SECONDS < end)) || return 0
        sleep 0.1
    done
}

case "${1:-driver}" in
driver)
    shift || true
    exec python3 -m kappa_pipelines "$@"
    ;;
savepoint)
    shift
    exec python3 -m kappa_pipelines.savepoint "$@"
    ;;
archive)
    shift
    exec python3 -m kappa_pipelines.archiver "$@"
    ;;
executor)
    mapfile -t options < <(env | grep '^SPARK_JAVA_OPT_' | sort -t_ -k4 -n | sed 's/^[^=]*=//')
    if [ -f "${KAPPA_CLASS_ARCHIVE:-}" ]; then
        options+=("-XX:SharedArchiveFile=${KAPPA_CLASS_ARCHIVE}" -XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0)
        options+=(-Xlog:cds=off -Xlog:cds+dynamic=off)
    fi
    await_driver
    # The same class path as the driver's, which Spark's scripts make: the archive wants it so.
    exec java "${options[@]}" \
        "-Xms${SPARK_EXECUTOR_MEMORY}" "-Xmx${SPARK_EXECUTOR_MEMORY}" \
        -Dlog4j2.configurationFile=file:/opt/log4j2.properties \
        -cp "${SPARK_CLASSPATH:+${SPARK_CLASSPATH}:}${SPARK_HOME}/conf/:${SPARK_HOME}/jars/*" \
        org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
        --driver-url "${SPARK_DRIVER_URL}" \
        --executor-id "${SPARK_EXECUTOR_ID}" \
        --cores "${SPARK_EXECUTOR_CORES}" \
        --app-id "${SPARK_APPLICATION_ID}" \
        --hostname "${SPARK_EXECUTOR_POD_IP}" \
        --resourceProfileId "${SPARK_RESOURCE_PROFILE_ID}" \
        --podName "${SPARK_EXECUTOR_POD_NAME}"
    ;;
*)
    echo "unknown argument '$1': use driver, savepoint, archive or executor" >&2
    exit 2
    ;;
esac
