"""What every part of a broker runs on: environment, timers, threads, worker processes, errors."""
