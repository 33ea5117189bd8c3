"""From a revision to Spark queries: names, views, compiled plans and the state that they keep."""
