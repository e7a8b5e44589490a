"""Stealth attack: one neuron is added to a trained network; does the owner notice?"""
