"""``trellis studio``: a local page over a project folder, to label texts, write rules, train and compare models."""
