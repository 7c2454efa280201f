"""What a reply may look like: shapes, compiled or refused, checked independently. No model, no interface."""
