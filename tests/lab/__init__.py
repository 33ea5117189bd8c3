"""A real Kubernetes and a real Kafka on one machine, for tests and for trying the platform.

With a Docker engine the cluster is kind's. Without one (a bare Linux machine, a container without nested
Docker) the same servers are built from source once and run as plain processes. Only the standard library
is used: the lab may run before any dependency of the project is installed.
"""
