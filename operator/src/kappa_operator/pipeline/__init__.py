"""The kind Pipeline: one driver per revision, started, followed, stopped and replaced at batch boundaries."""
