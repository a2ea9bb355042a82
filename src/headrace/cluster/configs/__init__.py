"""All settings: tables from which validation, DescribeConfigs and the documentation are made."""
