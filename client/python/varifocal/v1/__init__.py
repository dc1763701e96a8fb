"""Messages and stubs, generated from protos/varifocal/v1 when the wheel is built."""
