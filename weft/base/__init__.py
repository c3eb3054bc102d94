"""What every other module stands on: devices, modes, named constants, settings, declarations."""
