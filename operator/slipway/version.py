"""The version of this distribution, which the build, the commands and the chart share."""

VERSION = "0.1.0"
