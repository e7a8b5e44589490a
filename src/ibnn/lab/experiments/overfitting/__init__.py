"""Memorization where there is something to memorize: few images, many epochs, wrong labels."""
