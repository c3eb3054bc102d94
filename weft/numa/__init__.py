"""Where processes run on machines whose memory lies at several processors."""
