"""From checked tensors to a launch: target detection, the choice of back end, torch registration, errors. Knows no operator."""
