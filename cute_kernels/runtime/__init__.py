"""From checked tensors to a launch: target detection, the choice of back end, the disk cache, torch registration, errors. Knows no operator."""
