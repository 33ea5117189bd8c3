"""Small pure checks: each looks at an observation and returns a verdict, or None where it has nothing to say."""
