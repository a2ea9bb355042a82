"""Files: the file system interface, open files, log directories, delayed deletion."""
