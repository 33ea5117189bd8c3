"""What a LagPolicy does about lag; each remediation is recorded in status before it is applied."""
