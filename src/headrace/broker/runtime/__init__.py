"""The basis of every part of a broker: environment, timers, threads, worker processes, errors."""
