"""(family random)"""
