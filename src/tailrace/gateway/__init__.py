"""The gateway: the process that puts agents on channels."""
