"""The tables of settings; `settings_table` describes their format."""
