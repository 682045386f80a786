"""One file a family: worst-case loss, calibrate, draw."""
