"""The contract of the Kappa platform.

All data that two parts of the platform exchange are frozen models here: the custom resources that users
write (`kafkacluster`, `topic`, `statestore`, `pipeline`), the conditions that the operator answers with
(`conditions`, `reasons`), the revision that the operator hands to a driver (`revision`) and the progress that the
driver reports back (`progress`). Operator and runtime import this package and never each other.
"""

GROUP = "kappa-platform.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
CATEGORY = "kappa"
FIELD_MANAGER = "kappa-operator"
TEST_SUFFIX = ".kappatest"
"""Ending of files with test cases, in YAML. kubectl, Argo CD and Flux apply no file with this ending."""
