"""A partition's replica on this broker, as leader or follower: log, epoch, high watermark."""
