"""What pipes of files are made with."""
