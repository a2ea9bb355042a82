"""Every setting there is: one table that feeds validation, DescribeConfigs and the docs."""
