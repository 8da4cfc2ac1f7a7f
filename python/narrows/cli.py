"""CLI."""
import click
@click.group()
def main() -> None:
    """Narrows."""
